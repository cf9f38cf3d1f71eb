"""Files of graphs of tensors: the peak that docs/order.md promises, by trying all orders."""

import json
from itertools import product
from random import Random

import pytest

from planners.formats.tensor_graphs import parse_tensor_graph
from planners.order.search import plan_order


def random_document(random):
    """A file of a few nodes with scratch, alternatives and inputs that may be overwritten."""
    tensors, nodes = {"image": random.choice([1, 4])}, []
    for number in range(random.randint(1, 5)):
        inputs = random.sample(list(tensors), min(len(tensors), random.choice([1, 1, 2])))
        name = f"t{number}"
        tensors[name] = random.choice([tensors[inputs[0]], 1, 3, 8])
        node = {"name": name, "inputs": inputs, "op": random.choice(["Add", "Conv"])}
        if random.random() < 0.3:
            node["in_place"] = [source for source in inputs if tensors[source] >= tensors[name]]
        if random.random() < 0.4:
            node["scratch"] = random.choice([2, 9])
        if random.random() < 0.4:
            options = {
                "bytes": [0, 2, 5],
                "scratch": [0, 4],
                "price": [1, 3],
                "inputs": [inputs[:1]],
            }
            node["alternatives"] = [
                {key: random.choice(of) for key, of in options.items() if random.random() < 0.5}
                for _ in range(2)
            ]
        nodes.append(node)
    random.shuffle(nodes)
    return {"nodes": nodes, "tensors": tensors}


def selections(document):
    """The nodes, the bytes of all tensors and the price, with an alternative of each node."""
    nodes = document["nodes"]
    for chosen in product(*(node.get("alternatives", [{}]) for node in nodes)):
        pairs = [node | alternative for node, alternative in zip(nodes, chosen, strict=True)]
        sizes = {node["name"]: node["bytes"] for node in pairs if "bytes" in node}
        yield pairs, document["tensors"] | sizes, sum(node.get("price", 0) for node in pairs)


def least_peak(document, nodes, sizes, *, is_in_place):
    """The least peak of all orders. Outputs are the tensors that no node of the file reads."""
    read = {source for node in document["nodes"] for source in node["inputs"]}
    readers = {t: {node["name"] for node in nodes if t in node["inputs"]} for t in sizes}
    kept = {tensor for tensor in sizes if tensor not in read}
    kept |= {"image"} - {tensor for tensor in sizes if readers[tensor]}

    def overwritten(node):
        if "in_place" in node or not is_in_place or node["op"] != "Add":
            return node.get("in_place", [])
        # The sizes of the file decide, not those of alternatives.
        of_file = document["tensors"]
        return [name for name in node["inputs"] if of_file[name] == of_file[node["name"]]]

    def least_after(done):
        if len(done) == len(nodes):
            return sum(sizes[tensor] for tensor in kept)
        live = sum(
            size
            for tensor, size in sizes.items()
            if tensor in {"image", *done} and (tensor in kept or readers[tensor] - done)
        )
        peaks = []
        for node in nodes:
            name = node["name"]
            if name in done or not set(node["inputs"]) <= {"image", *done}:
                continue
            is_over = any(
                source in node["inputs"]
                and sizes[source] >= sizes[name]
                and source not in kept
                and readers[source] <= done | {name}
                for source in overwritten(node)
            )
            bytes_ = live + node.get("scratch", 0) + (0 if is_over else sizes[name])
            peaks.append(max(bytes_, least_after(done | {name})))
        return min(peaks)

    return least_after(frozenset())


@pytest.mark.parametrize("is_in_place", [False, True])
def test_small_files_get_the_least_peak_and_price_of_all_orders_and_alternatives(is_in_place):
    for seed in range(40):
        document = random_document(Random(seed))
        expected = min(
            (least_peak(document, nodes, sizes, is_in_place=is_in_place), price)
            for nodes, sizes, price in selections(document)
        )
        graph = parse_tensor_graph(json.dumps(document), "file", elementwise_in_place=is_in_place)
        plan = plan_order(graph)
        assert (plan.peak, plan.price, plan.gap) == (*expected, 0), seed
