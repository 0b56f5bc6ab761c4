import type { ModelCard } from '../../kernel/index.js'

/** Why a card of engine `onnx-lm` is refused; null for one that only makes vectors. */
export const refusesCard = ({ modelId, family, tasks }: ModelCard): string | null =>
  tasks.every((task) => task === 'embeddings') ? null : needsGguf(modelId, family)

/** Why a language model in ONNX does not run, and how to get it in a format that does. */
export function needsGguf (modelId: string, family: string): string {
  const [name = ''] = modelId.slice(modelId.lastIndexOf('/') + 1).split(/[-_.]onnx\b/i, 1)
  return `${modelId} is a language model (${family}) in ONNX, and language models run in GGUF only: ` +
    `\`svc search ${name} gguf\` finds it in that format, \`svc pull ORG/${name}-GGUF\` brings it`
}
