import { parseJson } from '../../../../kernel/api/schema.js'
import { loopFinder } from '../../../chat/repetition.js'
import type { ToolCall } from './conversation.js'
import type { ServerEvent } from '../../../../kernel/http/event-stream-parser.js'

interface Delta {
  content?: string | null
  reasoning_content?: string | null
  tool_calls?: { index?: number, id?: string, function?: { name?: string, arguments?: string } }[] | null
}

interface Chunk {
  choices?: { text?: string, delta?: Delta, finish_reason?: string | null }[]
  usage?: { completion_tokens?: number } | null
  error?: { message?: string, retryable?: boolean, details?: { remedy?: unknown } }
}

/** `failure`: the event that ended the stream early. */
export interface Failure { message: string, retryable: boolean, remedy: string | null }

const STATS = 'generation_stats '

export class Incoming {
  content = ''
  reasoning = ''
  /** Whether the answer has begun to repeat the same passage over and over. */
  loops = false
  readonly #isLoop = loopFinder()
  toolCalls: ToolCall[] = []
  finish: string | null = null
  tokens: number | null = null
  perSecond: number | null = null
  failure: Failure | null = null
  complete = false

  /** Processes one event from the answer stream. Returns true if the event adds text or tool calls. */
  take (event: ServerEvent): boolean {
    if (event.kind === 'comment') {
      if (event.text.startsWith(STATS)) this.#stats(event.text.slice(STATS.length))
      return false
    }
    const { data } = event
    if (data === '[DONE]') {
      this.complete = true
      return false
    }
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error !== undefined) {
      const { message = 'The answer ended with an error.', retryable = false, details } = chunk.error
      const remedy = typeof details?.remedy === 'string' ? details.remedy : null
      this.failure = { message, retryable, remedy }
      return false
    }
    this.tokens = chunk.usage?.completion_tokens ?? this.tokens
    const choice = chunk.choices?.[0]
    this.finish = choice?.finish_reason ?? this.finish
    return this.#grow({ content: choice?.text, ...choice?.delta })
  }

  #grow ({ content, reasoning_content: reasoning, tool_calls: calls }: {
    [K in keyof Delta]?: Delta[K] | undefined
  }): boolean {
    this.loops ||= this.#isLoop((reasoning ?? '') + (content ?? ''))
    this.content += content ?? ''
    this.reasoning += reasoning ?? ''
    for (const { index = 0, id, function: called } of calls ?? []) {
      const had = this.toolCalls[index] ?? { id: '', name: '', arguments: '' }
      this.toolCalls[index] = {
        id: id ?? had.id, name: had.name + (called?.name ?? ''),
        arguments: had.arguments + (called?.arguments ?? '')
      }
    }
    return Boolean(content) || Boolean(reasoning) || (calls?.length ?? 0) > 0
  }

  #stats (text: string): void {
    // An ordinary comment is not JSON.
    const { generation_tps: rate } = (parseJson(text) ?? {}) as { generation_tps?: number }
    if (rate !== undefined && rate > 0) this.perSecond = rate
  }
}
