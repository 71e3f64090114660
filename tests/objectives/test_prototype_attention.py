"""Attention over prototypes against the tokens written out, one query at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from written_out_attention import written_out

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


def world(classes: int = 7, count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(2 * torch.randn(n, DIM, generator=generator).double() for n in (classes, count))  # type: ignore[return-value]


def test_scores_and_gradients_are_those_of_the_tokens_written_out() -> None:
    made, (prototypes, queries) = layer(), world()
    for given in (prototypes, queries):
        given.requires_grad_()
    fast, fast_queries = made(made.table(prototypes), queries)
    slow, slow_queries = written_out(made, prototypes, queries)
    assert torch.allclose(fast, slow, atol=1e-12)
    assert torch.allclose(fast_queries, slow_queries, atol=1e-12)
    leaves = [prototypes, queries, *made.parameters()]
    of_fast = torch.autograd.grad(fast.pow(3).sum() + fast_queries.pow(3).sum(), leaves)
    of_slow = torch.autograd.grad(slow.pow(3).sum() + slow_queries.pow(3).sum(), leaves)
    for one, other in zip(of_fast, of_slow, strict=True):
        assert other.abs().max() > 1e-3
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
        assert sum(p.numel() for p in PrototypeAttention(dim).parameters()) == count


def test_it_starts_as_the_official_module() -> None:
    """Normal with std sqrt(2 / (d + d)) for all four matrices, torch's own bias of a linear map, a plain LayerNorm."""
    torch.manual_seed(3)
    made = PrototypeAttention(256)
    for matrix in (made.query, made.key, made.value, made.output):
        assert matrix.mean().item() == pytest.approx(0, abs=2e-3)
        assert matrix.std().item() == pytest.approx(0.0625, rel=0.02)
        assert 4 < (matrix / matrix.std()).abs().max() < 6  # a normal's largest of 65,536, not a uniform's
    assert 0.055 < made.bias.abs().max() <= 0.0625
    assert made.bias.std().item() == pytest.approx(0.0625 / 3**0.5, rel=0.15)
    assert (made.norm.weight == 1).all()
    assert (made.norm.bias == 0).all()
    assert made.norm.eps == 1e-5
    assert not PrototypeAttention(16, zero_start=True).bias.any()


def test_features_of_a_resnet_do_not_round_below_zero() -> None:
    """Positive features with a common mean many times their differences: single precision against double."""
    torch.manual_seed(4)
    made = PrototypeAttention(64)
    prototypes, queries = (3 + 0.3 * torch.randn(n, 64) for n in (100, 50))
    fast, _ = made(made.table(prototypes), queries)
    slow, _ = written_out(made.double(), prototypes.double(), queries.double())
    assert torch.isfinite(fast).all()
    assert (fast - slow).abs().max() < 1e-3


def test_pieces_give_the_same_scores() -> None:
    made, (prototypes, queries) = layer(), world(count=11)
    assert torch.allclose(made.scores(prototypes, queries, chunk=3), made(made.table(prototypes), queries)[0])


def test_the_query_may_keep_its_length() -> None:
    made, (prototypes, queries) = layer(), world()
    scores, adapted = made(made.table(prototypes), queries, unit_query=False)
    assert torch.allclose(scores / adapted.norm(dim=1, keepdim=True), made(made.table(prototypes), queries)[0])
