"""`vllm bench serve` from vLLM's package, without PyTorch and the engine: bench.py ARGS.

vllm/benchmarks is unmodified. What it imports of the engine for images, adapters and the choice of a
tokenizer is replaced by empty modules.
"""
import argparse
import asyncio
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from unittest.mock import MagicMock

EMPTY = ('torch', 'vllm.inputs', 'vllm.lora', 'vllm.multimodal', 'vllm.transformers_utils', 'vllm.tokenizers')


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.startswith(EMPTY):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__ = []
        module.__spec__ = spec
        return module

    def exec_module(self, module):
        pass


from transformers import AutoTokenizer  # noqa: E402

# Without vllm/__init__.py, which patches PyTorch.
vllm = types.ModuleType('vllm')
vllm.__path__ = importlib.util.find_spec('vllm').submodule_search_locations
sys.modules['vllm'] = vllm
sys.meta_path.insert(0, Empty())

from vllm.benchmarks import serve  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

serve.get_tokenizer = lambda name, **_: AutoTokenizer.from_pretrained(name)
parser = FlexibleArgumentParser(formatter_class=argparse.RawTextHelpFormatter)
serve.add_cli_args(parser)
serve.main(parser.parse_args())
