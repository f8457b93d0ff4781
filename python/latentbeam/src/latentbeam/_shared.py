"""Memory in which batches go from a loader's workers to the process that trains, used again and again.

PyTorch makes new shared memory for each tensor that a worker sends, hands over a file descriptor, maps it and unmaps it: for small
batches that costs more than reading them. Here a worker has pieces of shared memory. A piece travels once as any tensor does, later
batches in it by its number alone. When all tensors over it are gone in the process that received it, the worker writes there again.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import uuid
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np
import torch
from torch.utils.data import get_worker_info

Room = Callable[[int, Sequence[int], torch.dtype], torch.Tensor]  # memory for n tensors of a shape: (n, *shape)

_HEAD = 64  # bytes before the data of a piece: its two counts
_MOST = 64  # pieces of a worker: where a trainer keeps more batches, these travel as PyTorch has it


class _Piece:
    """Some shared memory. It is free where no tensor lies over it here, and what was sent has come back."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        new = torch.empty(0, dtype=torch.uint8)
        self.memory = new.set_(new.untyped_storage()._new_shared(_HEAD + size))  # type: ignore[call-overload,no-untyped-call,unused-ignore]
        self.counts = _counts(self.memory)
        self.lent: Callable[[], Any] = lambda: None
        self.known = False  # by the process that receives

    def free(self) -> bool:
        return self.lent() is None and bool(self.counts[0] == self.counts[1])


def _counts(memory: torch.Tensor) -> Any:
    """How often a piece was sent, which the worker writes, and how often it came back, which the receiver writes."""
    return memory.numpy()[:16].view(np.int64)


def _over(memory: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, Any]:
    """A tensor over a piece, and the array that lives as long as any tensor over the same memory. To PyTorch it is not shared memory: whoever
    sends it otherwise than as a Batch sends a copy."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    array = memory.numpy()[_HEAD:_HEAD + size]
    return torch.from_numpy(array).view(dtype).view(list(shape)), array


class _Pool:
    """The pieces of a worker."""

    def __init__(self) -> None:
        self.token = (os.getpid(), uuid.uuid4().hex)
        self.pieces: dict[int, _Piece] = {}  # by the address of their data
        self.made = 0
        self.gone: list[int] = []  # pieces that the receiver may forget

    def room(self, n: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Memory of a free piece for n tensors, of a new piece, or where there are too many, of nobody."""
        whole = (n, *shape)
        size = int(np.prod(whole, dtype=np.int64)) * dtype.itemsize
        free = [p for p in self.pieces.values() if p.free()]
        piece = min((p for p in free if size <= p.size <= 2 * size), key=lambda p: p.size, default=None)
        if piece is None and size and (free or len(self.pieces) < _MOST):
            if len(self.pieces) >= _MOST:
                self.gone.append(free[0].number)
                del self.pieces[free[0].memory.data_ptr() + _HEAD]
            self.made += 1
            piece = _Piece(self.made, size)
            self.pieces[piece.memory.data_ptr() + _HEAD] = piece
        if piece is None:
            return torch.empty(whole, dtype=dtype)
        made, array = _over(piece.memory, whole, dtype)
        piece.lent = weakref.ref(array)
        return made

    def piece(self, value: Any) -> Optional[_Piece]:
        """The piece that a tensor lies in, from its start."""
        if type(value) is not torch.Tensor or value.device.type != "cpu" or not value.is_contiguous() or value.requires_grad or not value.numel():
            return None
        return self.pieces.get(value.data_ptr())


_pool: Optional[_Pool] = None


def _mine() -> _Pool:
    """The pool of this process."""
    global _pool
    if _pool is None or _pool.token[0] != os.getpid():
        _pool = _Pool()
    return _pool


class Batch(dict[str, Any]):
    """A batch in a loader's worker. Where it arrives, it is a dict."""

    def __copy__(self) -> "Batch":  # PyTorch copies what it sends
        return Batch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def room() -> Room:
    """How memory for a batch is had: in a loader's worker shared memory."""
    return _mine().room if get_worker_info() is not None else lambda n, shape, dtype: torch.empty((n, *shape), dtype=dtype)


def finished(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as it is given: in a loader's worker all its tensors lie in shared memory."""
    if get_worker_info() is None:
        return batch
    pool = _mine()
    for name, value in batch.items():
        if isinstance(value, torch.Tensor) and pool.piece(value) is None:
            batch[name] = pool.room(len(value), value.shape[1:], value.dtype).copy_(value)
    return Batch(batch)


def _send(batch: Batch) -> tuple[Any, ...]:
    pool = _mine()
    places: dict[str, tuple[int, torch.dtype, tuple[int, ...], Optional[torch.Tensor]]] = {}
    for name, value in batch.items():
        piece = pool.piece(value)
        if piece is not None:
            places[name] = piece.number, value.dtype, tuple(value.shape), None if piece.known else piece.memory
            piece.known = True
            piece.counts[0] += 1
    gone, pool.gone = pool.gone, []
    rest = {name: value for name, value in batch.items() if name not in places}
    return _receive, (pool.token, gone, list(batch), places, rest)


ForkingPickler.register(Batch, _send)  # what queues between processes use; other pickles have the values

_received: dict[tuple[int, str], dict[int, torch.Tensor]] = {}  # pieces by pool and number
_returning = threading.RLock()  # a collection may begin while it is held


def _receive(token: tuple[int, str], gone: Sequence[int], names: Sequence[str], places: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    if token not in _received:
        living = {p.pid for p in multiprocessing.active_children()}
        for other in list(_received):
            if other[0] not in living:  # all that such a worker sent was received before it ended
                _received.pop(other, None)
        _received[token] = {}
    pieces = _received[token]
    for number in gone:
        pieces.pop(number, None)
    batch: dict[str, Any] = {}
    for name in names:
        if name in places:
            number, dtype, shape, memory = places[name]
            if memory is not None:
                pieces[number] = memory
            batch[name], array = _over(pieces[number], shape, dtype)
            weakref.finalize(array, _return, _counts(pieces[number]), os.getpid()).atexit = False
        else:
            batch[name] = rest[name]
    return batch


def _return(counts: Any, receiver: int) -> None:
    if os.getpid() == receiver:  # not in a process that was forked meanwhile
        with _returning:
            counts[1] += 1
