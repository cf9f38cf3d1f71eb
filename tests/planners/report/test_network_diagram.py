"""The diagram of a network on its page: order, groups and buffers are those of the plan."""

from lxml import html

import cnn2csdf
from planners.memory.fit import fit
from planners.plan.plan import Kind
from planners.report.plans import FitAnswer
from planners.report.viewer import network_section


def diagram(name, **options):
    model = cnn2csdf.read_model(name)
    answer = FitAnswer("csdf fit", model.network, fit(model.network, **options), None)
    return (
        model.network,
        answer.plan,
        html.fromstring(network_section(model.network, answer).content),
    )


def blocks(page):
    return {
        block.get("data-actor"): block.xpath("text/text()")
        for block in page.xpath("//g[@data-actor]")
    }


def test_layers_stand_in_the_order_of_the_plan_after_all_that_they_read():
    network, plan, page = diagram("resnet8", element_bytes=1)
    names = list(blocks(page))
    assert sorted(names) == sorted(layer.name for layer in network.layers)
    place = {name: number for number, name in enumerate(names)}
    for layer in network.layers:
        assert all(place[source] < place[layer.name] for source in layer.inputs)
    executed = [name for group in plan.groups for stage in group.stages for name in stage.layers]
    assert [name for name in names if name in executed] == executed


def test_the_buffer_of_a_layer_is_that_of_the_plan():
    _, plan, page = diagram("resnet8", element_bytes=1)
    shown = blocks(page)
    lines = [buffer for buffer in plan.buffers if buffer.kind is Kind.LINE and buffer.size]
    assert lines
    for buffer in lines:
        text = " ".join(shown[buffer.tensor])
        assert f"{buffer.rows} row" in text
        assert text.endswith(f"at {buffer.offset}")
    assert not any("0 B" in text.split(",") for texts in shown.values() for text in texts)


def test_without_a_plan_layers_and_shapes_are_drawn_without_groups():
    network = cnn2csdf.read_model("resnet8").network
    page = html.fromstring(network_section(network, None).content)
    assert list(blocks(page)) == [layer.name for layer in network.layers]
    assert not page.xpath("//text[@class='group']")
