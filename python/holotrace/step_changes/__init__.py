"""Why a step of one job takes longer than one of another: its parts, and causes of lost time that came or went."""

from holotrace.step_changes.asked import ASKED, OPTIONS
from holotrace.step_changes.change import StepChange, between
from holotrace.step_changes.step import Step

__all__ = ["ASKED", "OPTIONS", "Step", "StepChange", "between"]
