"""What each property says, in a sentence: one of `docs/properties.md`, to which a test holds them."""

from typing import Final

MEANINGS: Final = {
    "assumption 2.1": "A process lives once.",
    "assumption 2.3": "A message is sent once.",
    "definition 2.7": "A message has one place in the order.",
    "2.1": "Everything happens in a view.",
    "2.2": "You are in your own view.",
    "2.3": "Views move forward.",
    "2.4": "Coming along is coming from the same view.",
    "2.5": "Nothing comes twice.",
    "2.6": "Nothing comes from nowhere.",
    "2.7": "Who moves together has seen the same.",
    "2.8": "Companions see the signal at the same point.",
    "2.11": "A sender's messages keep their order.",
    "2.12": "Causes come first.",
    "2.13(2)": "Agreed messages come in order.",
    "2.13(3)": "Before the signal there are no gaps.",
    "2.13(4)": "After the signal there are none among companions.",
    "2.14(2)": "Before the signal, safe is safe for all.",
    "2.14(3)": "After the signal, safe is safe for companions.",
    "2.15": "You get your own messages.",
    "2.16": "Views become true.",
    "2.17": "In a lasting view everything arrives.",
    "2.18": "One message, one view.",
    "2.19": "A message stays in its view.",
    "2.20": "A view id means one membership.",
    "one order": "There is one order.",
}


def meaning(name: str) -> str:
    """The sentence of a property, by the longest beginning of its name that is known; or nothing."""
    plain = name.removeprefix("EVS-C ")
    found = [key for key in MEANINGS if plain == key or plain.startswith(f"{key} ")]
    return MEANINGS[max(found, key=len)] if found else ""
