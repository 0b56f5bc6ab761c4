import type { TraceRecord } from './record.js'

/** Attributes of a span for OpenTelemetry. */
export type OtelAttributes = Record<string, string | number | boolean>

/** What OpenTelemetry's conventions call a task; others keep their name. */
const OPERATIONS: Readonly<Record<string, string>> = {
  chat: 'chat', completion: 'text_completion', completions: 'text_completion', embedding: 'embeddings',
  embeddings: 'embeddings', tts: 'text_to_speech'
}

/** The operation's name by the gen_ai conventions. Pure. */
export const operationOf = ({ taskKind }: Pick<TraceRecord, 'taskKind'>): string =>
  OPERATIONS[taskKind] ?? taskKind

/** Attributes of the span of the whole request, by the gen_ai conventions where these have a word. Pure. */
export function genAiAttributes (record: TraceRecord): OtelAttributes {
  const { modelId, taskId, commandId, reason, spans } = record
  const tokens = (name: string): number => spans.reduce((sum, { attrs }) => {
    const value = attrs[name]
    return typeof value === 'number' ? sum + value : sum
  }, 0)
  const [input, output] = [tokens('input_tokens'), tokens('output_tokens')]
  return {
    'gen_ai.operation.name': operationOf(record),
    'gen_ai.provider.name': 'svc',
    'gen_ai.request.model': modelId,
    'gen_ai.response.model': modelId,
    'gen_ai.response.id': commandId,
    ...(input > 0 ? { 'gen_ai.usage.input_tokens': input } : {}),
    ...(output > 0 ? { 'gen_ai.usage.output_tokens': output } : {}),
    ...(reason === null ? {} : { 'error.type': reason }),
    'svc.task.id': taskId,
    'svc.command.id': commandId
  }
}
