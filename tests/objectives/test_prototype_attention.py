"""Attention over prototypes against the tokens written out, one query at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.objectives.prototype_attention import PrototypeAttention

DIM = 12


def scores(made: PrototypeAttention, prototypes: Tensor, queries: Tensor) -> Tensor:
    return made(made.table(prototypes), queries)[0]


def layer(zero_start: bool = False) -> PrototypeAttention:
    torch.manual_seed(0)
    made = PrototypeAttention(DIM, torch.Generator().manual_seed(1), zero_start)
    with torch.no_grad():
        for parameter in (made.bias, made.norm.weight, made.norm.bias):
            parameter.normal_()
    return made.double()


def written_out(made: PrototypeAttention, prototypes: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    cosines, adapted = [], []
    for query in queries:
        tokens = torch.cat([prototypes, query[None]])
        attention = ((tokens @ made.query) @ (tokens @ made.key).T / DIM**0.5).softmax(-1)
        tokens = made.norm(tokens + attention @ (tokens @ made.value) @ made.output + made.bias)
        cosines.append(F.cosine_similarity(tokens[-1:], tokens[:-1]))
        adapted.append(tokens[-1])
    return torch.stack(cosines), torch.stack(adapted)


def world(classes: int = 7, count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(2 * torch.randn(n, DIM, generator=generator).double() for n in (classes, count))  # type: ignore[return-value]


def test_scores_and_gradients_are_those_of_the_tokens_written_out() -> None:
    made, (prototypes, queries) = layer(), world()
    (fast, fast_queries), (slow, slow_queries) = (
        made(made.table(prototypes), queries),
        written_out(made, prototypes, queries),
    )
    assert torch.allclose(fast, slow, atol=1e-12)
    assert torch.allclose(fast_queries, slow_queries, atol=1e-12)
    parameters = list(made.parameters())
    for one, other in zip(
        torch.autograd.grad(fast.pow(3).sum(), parameters),
        torch.autograd.grad(slow.pow(3).sum(), parameters),
        strict=True,
    ):
        assert torch.allclose(one, other, atol=1e-10)


def test_tasks_side_by_side_are_tasks_one_by_one() -> None:
    made, (prototypes, queries) = layer(), world()
    other = prototypes.flip(1)
    both, _ = made(made.table(torch.stack([prototypes, other])), queries.expand(2, -1, -1))
    assert torch.allclose(both[0], made(made.table(prototypes), queries)[0])
    assert torch.allclose(both[1], made(made.table(other), queries)[0])


def test_without_output_it_is_the_cosine_after_layer_norm_by_hand() -> None:
    """W_o = 0, b_o = 0: (1, 3) and (3, 1) become (-1, 1) and (1, -1), so their cosine is -1; (0, 5) is like (1, 3)."""
    made = PrototypeAttention(2, torch.Generator(), zero_start=True)
    scores, _ = made(made.table(torch.tensor([[1.0, 3.0], [3.0, 1.0]])), torch.tensor([[0.0, 5.0]]))
    assert scores.tolist()[0] == pytest.approx([1.0, -1.0], abs=1e-4)


def test_old_logits_depend_on_new_classes_but_not_without_output() -> None:
    prototypes, queries = world()
    made = layer()
    assert not torch.allclose(
        made(made.table(prototypes), queries)[0][:, :5], made(made.table(prototypes[:5]), queries)[0]
    )
    with torch.no_grad():
        made.output.zero_()
    assert torch.allclose(scores(made, prototypes, queries)[:, :5], scores(made, prototypes[:5], queries))


def test_permuted_prototypes_permute_the_logits() -> None:
    made, (prototypes, queries) = layer(), world()
    order = torch.tensor([3, 0, 6, 1, 2, 5, 4])
    assert torch.allclose(
        made(made.table(prototypes[order]), queries)[0], made(made.table(prototypes), queries)[0][:, order]
    )


def test_parameter_counts_of_the_official_module() -> None:
    for dim, count in ((64, 16_576), (512, 1_050_112)):
        assert sum(p.numel() for p in PrototypeAttention(dim, torch.Generator()).parameters()) == count


def test_pieces_give_the_same_scores() -> None:
    made, (prototypes, queries) = layer(), world(count=11)
    assert torch.allclose(made.scores(prototypes, queries, chunk=3), made(made.table(prototypes), queries)[0])


def test_the_query_may_keep_its_length() -> None:
    made, (prototypes, queries) = layer(), world()
    scores, adapted = made(made.table(prototypes), queries, unit_query=False)
    assert torch.allclose(scores / adapted.norm(dim=1, keepdim=True), made(made.table(prototypes), queries)[0])
