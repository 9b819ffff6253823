"""Tables and figures in words, for all pages."""


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(cells, numbers_from=1):
    """The first line is the head; columns from numbers_from on are aligned to the right."""
    head, *body = cells
    rule = ["---"] * numbers_from + ["---:"] * (len(head) - numbers_from)
    return "\n".join(row(line) for line in [head, rule, *body])


def in_order(values):
    return list(dict.fromkeys(values))


def time_text(seconds):
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(count):
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B" if count else "-"
