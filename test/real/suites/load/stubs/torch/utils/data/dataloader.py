from typing import Generic, TypeVar

T = TypeVar('T', covariant=True)


class DataLoader(Generic[T]):
    def __init__(self, dataset, collate_fn, **_):
        self.dataset = dataset
        self.collate_fn = collate_fn

    def __iter__(self):
        return (self.collate_fn([each]) for each in self.dataset)
