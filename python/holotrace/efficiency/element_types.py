"""Types of tensor elements as traces write them: their size, and which one a calculation gives."""

from __future__ import annotations

from holotrace.efficiency.unknown import Unknown

FOUR_BITS = "c10::Float4_e2m1fn_x2"
_SIZES = {
    1: (
        "bool",
        "unsigned char",
        "signed char",
        "char",
        "c10::qint8",
        "c10::quint8",
        "c10::Float8_e4m3fn",
        "c10::Float8_e4m3fnuz",
        "c10::Float8_e5m2",
        "c10::Float8_e5m2fnuz",
        "c10::Float8_e8m0fnu",
        # Two elements in each byte.
        FOUR_BITS,
    ),
    2: (
        "c10::Half",
        "c10::BFloat16",
        "short",
        "short int",
        "unsigned short",
        "short unsigned int",
        "at::Half",
        "at::BFloat16",
    ),
    4: ("float", "int", "unsigned int", "c10::qint32", "c10::complex<c10::Half>", "c10::complex<at::Half>"),
    8: (
        "double",
        "long",
        "long int",
        "long long",
        # Compilers of Windows write them so.
        "__int64",
        "unsigned __int64",
        "unsigned long",
        "unsigned long int",
        "long unsigned int",
        "c10::complex<float>",
    ),
    16: ("c10::complex<double>",),
}
SIZES = {name: size for size, names in _SIZES.items() for name in names}
# Codes of torch.dtype, as a scalar argument has them.
CODES = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    8: "c10::complex<c10::Half>",
    9: "c10::complex<float>",
    10: "c10::complex<double>",
    11: "bool",
    12: "c10::qint8",
    13: "c10::quint8",
    14: "c10::qint32",
    15: "c10::BFloat16",
    23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn",
    25: "c10::Float8_e5m2fnuz",
    26: "c10::Float8_e4m3fnuz",
    27: "unsigned short",
    28: "unsigned int",
    29: "unsigned long",
    44: "c10::Float8_e8m0fnu",
    45: FOUR_BITS,
}
_CANONICAL = {
    "at::Half": "c10::Half",
    "at::BFloat16": "c10::BFloat16",
    "long": "long int",
    "__int64": "long int",
    "short": "short int",
}
_INTEGERS = ("unsigned char", "char", "signed char", "short int", "int", "long int")
_FLOATS = ("c10::Half", "c10::BFloat16", "float", "double")
_COMPLEX = ("c10::complex<c10::Half>", "c10::complex<float>", "c10::complex<double>")
# What a number of Python gives with tensors of a lower category.
_OF_NUMBER = ("bool", "long int", "float", "c10::complex<float>")
_SHORT = {
    "double": "fp64",
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "signed char": "int8",
    "unsigned char": "int8",
    "char": "int8",
    "c10::qint8": "int8",
    FOUR_BITS: "fp4",
}


def size(name: str) -> int:
    """Bytes of an element."""
    if name not in SIZES:
        raise Unknown(f"type {name!r} is not known" if name else "the type of an input is not recorded")
    return SIZES[name]


def by_code(code: int) -> str:
    """The type that torch gives this number."""
    if code not in CODES:
        raise Unknown(f"type number {code} is not known")
    return CODES[code]


def short(name: str) -> str | None:
    """The type as tables of devices call it: fp64, fp32, fp16, bf16, fp8, int8, fp4; null for any other."""
    if name.startswith("c10::Float8_") and not name.endswith("e8m0fnu"):
        return "fp8"
    return _SHORT.get(_CANONICAL.get(name, name))


def _rank(name: str) -> int:
    """0 for bool, 1 for integers, 2 for floating point, 3 for complex numbers."""
    if name == "bool":
        return 0
    if "complex" in name:
        return 3
    return 2 if name in _FLOATS or "Float" in name else 1


def is_floating(name: str) -> bool:
    return _rank(_CANONICAL.get(name, name)) > 1


def real(name: str) -> str:
    """The type of the absolute value of an element."""
    for part, whole in zip(("c10::Half", "float", "double"), _COMPLEX, strict=True):
        if name.replace("at::Half", "c10::Half") == whole:
            return part
    return name


def with_number(kind: str, text: str) -> str:
    """The type that a calculation of this type gives with a number of Python, which is recorded as ``text``."""
    of_number = 0 if text in ("True", "False") else _category_of(text)
    return _OF_NUMBER[of_number] if of_number > _rank(_CANONICAL.get(kind, kind)) else kind


def _category_of(text: str) -> int:
    for category, read in enumerate((int, float, complex), start=1):
        try:
            read(text)
        except ValueError:
            continue
        return category
    raise Unknown("what is calculated with is not recorded as a number")


def accumulated(name: str) -> str:
    """The type in which sums of the elements are kept on a device."""
    return name if name == "double" or not is_floating(name) or "complex" in name else "float"


def promoted(operands: list[tuple[str, int]]) -> str:
    """The type that a calculation with these types and numbers of dims gives, by the rules of torch.

    A tensor without dims only counts where no tensor with dims is of as high a category.
    """
    types = [(_CANONICAL.get(name, name), dims) for name, dims in operands]
    highest = max(_rank(name) for name, _ in types)
    with_dims = [name for name, dims in types if dims]
    chosen = [name for name in with_dims if _rank(name) == highest]
    if chosen:
        return _wider(chosen)
    alone = [name for name, _ in types if _rank(name) == highest]
    if not with_dims:
        return _wider(alone)
    # A number of Python is recorded as a double or long without dims; among integers it gives the default type.
    return "float" if highest == 2 and alone == ["double"] else _wider(alone)


def _wider(names: list[str]) -> str:
    distinct = set(names)
    if len(distinct) == 1:
        return names[0]
    if distinct == {"c10::Half", "c10::BFloat16"}:
        return "float"
    for order in (_INTEGERS, _FLOATS, _COMPLEX):
        if distinct <= set(order):
            if distinct >= {"unsigned char"} and distinct & {"signed char", "char"}:
                return _wider([*(distinct - {"unsigned char", "signed char", "char"}), "short int"])
            return max(distinct, key=order.index)
    raise Unknown(f"what {' and '.join(sorted(distinct))} give is not known")
