"""The files of a diagnosis: its report, the reproducer, and the graph that goes round the fault."""

from __future__ import annotations

import pathlib

from dmlgraph.doctor import report, reproducer
from dmlgraph.doctor.diagnosis import Diagnosis
from dmlgraph.doctor.trials import Outcome
from dmlgraph.files.whole import write_text
from dmlgraph.formats.load_save import save

REPORT, WITH_WORKAROUND, DETOURED = ("report.txt", "report.html"), "workaround.yaml", "detoured.yaml"


def write(
    found: Diagnosis, folder: pathlib.Path, *, with_names: bool = False, with_data: bool = False
) -> dict[str, str]:
    """Writes all that can be; returns what is in each file or folder, by its name.

    The graphs are for the user alone; the rest is for the vendor, and holds nothing of the user's unless asked.

    Args:
        found: the diagnosis.
        folder: it is made if it is missing.
        with_names, with_data: as in `report.text`.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"with_names": with_names, "with_data": with_data}
    write_text(folder / REPORT[0], report.text(found, **asked))
    write_text(folder / REPORT[1], report.html(found, **asked))
    written = dict.fromkeys(REPORT, "the report, for the vendor")
    case = found.case
    if case is not None and (case.is_anonymous or with_data):
        kinds = ("the case as a graph file with a test", "the case for DxDispatch", "the case in C++ with a self-check")
        names = reproducer.save(folder, case.graph, case.inputs, found.outcome or Outcome())
        written |= dict(zip(names, kinds, strict=True))
    treatment = found.treatment
    if treatment is None:
        return written
    if treatment.best is not None:
        save(treatment.graph(), folder / WITH_WORKAROUND)
        written[WITH_WORKAROUND] = "your graph with a workaround for this device and its driver"
    if treatment.detoured is not None:
        save(treatment.detoured, folder / DETOURED)
        written[DETOURED] = "your graph with other nodes or outputs, for programs that read no workarounds"
    return written
