"""explained: what went wrong with the hub -> a BadModel that says what to do.

    except Exception as problem:
        raise explained(problem, "org/name", "main", kept="absent") from None

Knows nothing of how files are fetched.
"""

from __future__ import annotations

from typing import Any

from pilotfish.errors import BadModel

PAUSES = (1.0, 2.0, 4.0)  # seconds before each further try
_BUSY = (408, 429, 500, 502, 503, 504)
_SECONDS = 5  # for the list of revisions, which is only a help
_SHOWN = 8


def is_passing(problem: Exception) -> bool:
    """True where asking again later may help: no network, a busy hub."""
    from httpx2 import TransportError

    response = getattr(problem, "response", None)
    return isinstance(problem, TransportError) or (response is not None and response.status_code in _BUSY)


def offline(model: str, kept: str, reason: str) -> BadModel:
    """The hub cannot be asked, and the cache does not help."""
    cache = "not in the hub's cache" if kept == "absent" else f"{kept.replace(':', ' in the hub cache:', 1)}"
    return BadModel(
        f"the model {model!r} is {cache}, and the hub cannot be asked ({reason}). Go online once to fetch it,"
        " or name a local file or folder."
    )


def explained(problem: Exception, repo: str, revision: str, *, kept: str) -> BadModel:
    """The problem in words. `kept` is the state of the copy in the cache."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    if isinstance(problem, errors.HfHubHTTPError):
        found = _answered(problem, repo, revision)
    elif isinstance(problem, HTTPError):
        return offline(repo, kept, f"{type(problem).__name__}: {problem}")
    elif isinstance(problem, errors.LocalEntryNotFoundError):  # the library's word for all of these
        cause = problem.__cause__
        return offline(repo, kept, str(cause)) if cause is None else _of_cause(cause, repo, revision, kept)
    elif isinstance(problem, OSError):
        found = _stored(problem)
    elif isinstance(problem, errors.HFValidationError):
        found = f"cannot be the name of a hub model ({problem}). Check the name"
    else:
        found = (
            f"could not be fetched: the answer of {_site()} was not the hub's ({problem}). Check HF_ENDPOINT,"
            " and whether a login page or proxy stands between"
        )
    return BadModel(f"the model {repo!r} {' '.join(found.split())}.")


def _of_cause(cause: BaseException, repo: str, revision: str, kept: str) -> BadModel:
    known = cause if isinstance(cause, Exception) else Exception(str(cause))
    return explained(known, repo, revision, kept=kept)


def _answered(problem: Any, repo: str, revision: str) -> str:  # noqa: ANN401 - HfHubHTTPError, imported lazily
    from huggingface_hub import errors

    status, said = (
        problem.response.status_code,
        problem.server_message or f"status {problem.response.status_code}",
    )
    page = f"{_site()}/{repo}"
    if isinstance(problem, errors.GatedRepoError):
        return f"is gated. Ask for access at {page}, then set HF_TOKEN to a token that may read it"
    if isinstance(problem, errors.RepositoryNotFoundError):
        return f"is not on the hub, or private. Check the name at {page}; for a private model set HF_TOKEN"
    if isinstance(problem, errors.RevisionNotFoundError):
        return f"has no revision {revision!r}{_revisions(repo)}"
    if isinstance(problem, errors.DisabledRepoError):
        return "was disabled on the hub. Choose another model"
    if isinstance(problem, errors.EntryNotFoundError):
        return f"lacks a file that it listed ({said}). Try again, or another @revision"
    if status == 401:
        return (
            "could not be asked for, because the hub refuses the token. Renew it at"
            f" {_site()}/settings/tokens and set HF_TOKEN, or unset it: public models need none"
        )
    if status == 403:
        return f"is forbidden to this token ({said}). Give the token the right to read {page}"
    if status == 429:
        wait = problem.response.headers.get("Retry-After")
        return (
            "could not be fetched, because the hub limits how often it is asked. Try again"
            f" {f'in {wait} s' if wait else 'later'}, or set HF_TOKEN, which raises the limit"
        )
    return f"could not be fetched: the hub answered {said}. Try again later; what has come is kept"


def _stored(problem: OSError) -> str:
    from huggingface_hub import constants

    return (
        f"could not be stored in the hub's cache {constants.HF_HUB_CACHE} ({problem}). Set HF_HOME to a"
        " folder that can be written"
    )


def _revisions(repo: str) -> str:
    """The branches and tags there are, where the hub says so at once."""
    from huggingface_hub import HfApi

    try:
        refs = HfApi().list_repo_refs(repo)
    except Exception:
        return ". Check the name of the branch, tag or commit"
    names = [entry.name for entry in (*refs.branches, *refs.tags)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f". There are: {', '.join(names[:_SHOWN])}{more}, and commits"


def _site() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)
