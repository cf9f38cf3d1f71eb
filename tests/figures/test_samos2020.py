"""The pages beside the scripts are what the scripts make."""

from pathlib import Path

import pytest

from figures import samos2020_fig1_table2


def kept(script):
    return Path(script.__file__).with_suffix(".md").read_text()


def test_the_worked_example():
    page = samos2020_fig1_table2.page()
    assert page == kept(samos2020_fig1_table2)
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 4 and cells[-1] not in ("", "printed", "---"):
            assert cells[-2] == cells[-1]  # ours, printed


@pytest.mark.slow
def test_table_three():
    pytest.importorskip("onnx")
    from figures import samos2020_table3

    networks = {
        name: samos2020_table3.unfused(build())
        for name, (build, _) in samos2020_table3.NETWORKS.items()
    }
    rows = {name: samos2020_table3.by_rows(network) for name, network in networks.items()}
    assert samos2020_table3.page(networks, rows) == kept(samos2020_table3)


@pytest.mark.slow
def test_the_memory_of_table_three_is_the_printed_one():
    pytest.importorskip("onnx")
    from figures import samos2020_table3

    for build, printed in samos2020_table3.NETWORKS.values():
        network = samos2020_table3.unfused(build())
        for cut, expected in (
            (samos2020_table3.WHOLE, printed.whole),
            (samos2020_table3.WAITING, printed.parts),
        ):
            assert round(samos2020_table3.published_bytes(network, cut) / 1e6) == expected
