/** Service for other plugins: answers of language models. */
import { defineService, type CapabilityCall } from '../../kernel/index.js'
import type { Choice, Usage } from '../runners/language/chunks.js'
import type { ChatBody } from './api/schema.js'

export type { InputMessage } from './api/schema.js'

export interface Chat {
  /**
   * The chunks that POST /v1/chat/completions streams for the same body, which must match its schema; the
   * last one has the usage. Throws as that route does.
   */
  answer (body: ChatBody, call: CapabilityCall): AsyncIterable<{ choices: Choice[], usage?: Usage | null }>
  /** Resolves an alias; other names are returned unchanged. */
  modelOf (name: string): string
}
export const ChatService = defineService<Chat>('chat')
