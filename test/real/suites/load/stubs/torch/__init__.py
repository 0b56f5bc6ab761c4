"""What guidellm and datasets need of PyTorch, which takes 3 GB, to load prompts."""
__version__ = '0'


class Tensor:
    pass


class Generator:
    def manual_seed(self, seed):
        return self
