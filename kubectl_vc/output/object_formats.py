"""Values of `-o` for objects. Pure."""

from dataclasses import dataclass

from kubectl_vc.output.printers import OutputFormat

TEMPLATE_FORMATS = (
    *("jsonpath", "jsonpath-as-json", "jsonpath-file", "custom-columns", "custom-columns-file"),
    *("go-template", "go-template-file"),
)
"""Formats with a template. kubectl prints them, so that they are the same as in kubectl."""


@dataclass(frozen=True, slots=True)
class ObjectFormat:
    """An output format, with its template if it has one."""

    form: OutputFormat = OutputFormat.TABLE
    template: str = ""
    """`jsonpath={.status}`. Empty for a format without a template."""


DEFAULT_FORMAT = ObjectFormat()


def parse_object_format(text: str) -> ObjectFormat:
    """Return the format that `-o` names. Raises ValueError."""
    name, equals, template = text.partition("=")
    if name in TEMPLATE_FORMATS:
        if not equals or not template:
            raise ValueError(f"{name} needs a template. Write {name}=TEMPLATE")
        return ObjectFormat(template=text)
    known = [each.value for each in OutputFormat]
    if equals or name not in known:
        raise ValueError(
            f"must be one of {', '.join((*known, *(f'{each}=' for each in TEMPLATE_FORMATS)))}"
        )
    return ObjectFormat(OutputFormat(name))
