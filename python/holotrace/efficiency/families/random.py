"""Random numbers."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments, of_rank
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown


@model(
    "random numbers in place",
    "rng",
    r"aten::(normal_|uniform_|random_|bernoulli_|exponential_|geometric_|cauchy_|log_normal_|_fill_mem_eff_dropout_mask_"
    r"|_philox_(normal|uniform|randint)_)",
    flops="0",
    moved="what is written; odds or a key where they are a tensor",
)
def in_place(a: Arguments) -> Figures:
    return Figures(0, total_bytes(a.tensor(0), a.optional(1)))


@model(
    "gradient of random numbers",
    "elementwise",
    r"aten::(_standard_gamma_grad|_dirichlet_grad)",
    moved="all its tensors, and as much written as the first",
)
def gradient(a: Arguments) -> Figures:
    """Parameters and numbers; or numbers, parameters and sums of these."""
    x = a.tensor(0)
    return Figures(None, total_bytes(x, a.tensor(1), a.optional(2), x.like()))


@model(
    "random numbers",
    "rng",
    r"aten::(bernoulli|normal|poisson|rand_like|randn_like|randint_like|multinomial|binomial|_standard_gamma|_sample_dirichlet)",
    flops="0",
    moved="input, and as much written",
)
def returned(a: Arguments) -> Figures:
    x = a.tensor(0)
    if a.name.endswith("multinomial"):
        count = a.size(1)
        of_rank(x, 1, 2)
        return Figures(0, x.bytes + 8 * count * (x.dims[0] if len(x.dims) == 2 else 1))
    if a.name.endswith("_like"):
        # The type follows the bounds of whole numbers: one, or two.
        place = 1 if "randint" not in a.name else 3 if a.text(2).lstrip("-").isdigit() and len(a) > 7 else 2
        return Figures(0, x.like(type=a.type_at(place, x.type)).bytes)
    # Means and deviations, or numbers of trials and their odds, may both be tensors.
    other = a.optional(1) if a.name.endswith(("normal", "binomial")) else None
    return Figures(0, total_bytes(x, other, x.like(broadcast(x.dims, other.dims) if other else x.dims)))


@model("permutation", "rng", r"aten::randperm", flops="0", moved="what is written")
def permutation(a: Arguments) -> Figures:
    out = next((t for _, t in a.all_tensors()), None)
    if out is None:
        raise Unknown("how many numbers are written is not recorded")
    return Figures(0, total_bytes(out))
