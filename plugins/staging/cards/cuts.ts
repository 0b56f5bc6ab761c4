import type { ModelCard } from '../../../kernel/index.js'

/** Architectures that llama.cpp cannot split by tensor, as of the tested llama.cpp release. */
export const NO_TENSOR_SPLIT = new Set([
  'bailingmoe3', 'bitnet', 'deepseek2', 'deepseek32', 'dots3note', 'falcon-h1', 'gemma3n', 'glm-dsa',
  'granitehybrid', 'grok', 'hy_v4', 'jamba', 'kimi-k3', 'kimi-linear', 'mamba', 'mamba2', 'minicpm3',
  'minimax-01', 'minimax-m2', 'minimax-m3', 'mistral4', 'mpt', 'nemotron_h', 'nemotron_h_moe', 'olmo2',
  'olmoe', 'plamo2', 'qwen3tts', 'qwen4exp', 't5'
])

/** Updates cards of earlier releases, which denied tensor split, and chat if a template was missing. */
export const withTensorSupport = <C extends Pick<ModelCard,
'engine' | 'family' | 'supportsTensor' | 'tasks'>>(card: C): C => card.engine !== 'llama-server' ? card : {
  ...card, supportsTensor: !NO_TENSOR_SPLIT.has(card.family),
  tasks: String(card.tasks) === 'completions' ? ['chat', 'completions'] : card.tasks
}
