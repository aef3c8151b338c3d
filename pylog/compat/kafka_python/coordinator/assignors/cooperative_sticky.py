"""The cooperative-sticky assignor."""


class CooperativeStickyAssignor:
    """The same, while members read on."""

    name = "cooperative-sticky"
