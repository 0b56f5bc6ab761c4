/** The session object of the Realtime API: its schema, its defaults, and updates of it. */
import { isObject, openObject, type FromSchema } from '../../kernel/index.js'
import { newId } from './ids.js'
import type { SoundFormat } from './audio.js'

const text = { type: 'string', maxLength: 262_144 } as const
const name = { type: 'string', minLength: 1, maxLength: 64 } as const
const flag = { type: 'boolean' } as const
const ignored = { 'x-ignored': 'it is accepted, without effect' } as const
const format = openObject({
  type: { enum: ['audio/pcm', 'audio/pcmu', 'audio/pcma'] }, rate: { const: 24_000 }
}, ['type'])
const tool = openObject({
  type: { const: 'function', description: 'functions of the client; remote MCP servers are not served' },
  name, description: text, parameters: { type: 'object' }
}, ['type', 'name'])

/** Fields of sessions and of single responses. */
export const answerFields = {
  instructions: text, tools: { type: 'array', maxItems: 128, items: tool },
  output_modalities: { type: 'array', minItems: 1, maxItems: 1, items: { enum: ['text', 'audio'] } },
  tool_choice: {
    type: ['string', 'object'], required: ['type', 'name'], properties: { type: { const: 'function' }, name }
  },
  max_output_tokens: { anyOf: [{ type: 'integer', minimum: 1 }, { const: 'inf' }] },
  parallel_tool_calls: ignored, reasoning: ignored, prompt: { type: 'null' }
} as const

export const outputFields = {
  type: 'object',
  properties: {
    format, speed: { type: 'number', minimum: 0.25, maximum: 1.5 },
    voice: { type: ['string', 'object'], minLength: 1, required: ['id'], properties: { id: name } }
  }
} as const

const inputFields = {
  type: 'object',
  properties: {
    format, noise_reduction: ignored,
    transcription: {
      type: ['object', 'null'],
      properties: { model: { type: 'string' }, language: { type: 'string', maxLength: 8 }, prompt: text }
    },
    turn_detection: {
      type: ['object', 'null'],
      properties: {
        type: { enum: ['server_vad', 'semantic_vad'], description: 'both are server_vad' },
        threshold: { type: 'number', minimum: 0, maximum: 1 },
        prefix_padding_ms: { type: 'integer', minimum: 0, maximum: 5000 },
        silence_duration_ms: { type: 'integer', minimum: 50, maximum: 10_000 },
        create_response: flag, interrupt_response: flag, eagerness: ignored, idle_timeout_ms: ignored
      }
    }
  }
} as const

export const sessionSchema = openObject({
  type: { enum: ['realtime', 'transcription'] }, ...answerFields,
  model: { type: 'string', description: 'counts for a client secret; later the model of the address' },
  include: { type: ['array', 'null'], maxItems: 8, items: { type: 'string' } },
  tracing: ignored,
  truncation: { type: ['string', 'object'], description: '"disabled": one that is too long is an error' },
  audio: { type: 'object', properties: { input: inputFields, output: outputFields } }
}, ['type'])

const PCM: { type: SoundFormat, rate?: number } = { type: 'audio/pcm', rate: 24_000 }
const TURN = {
  type: 'server_vad', threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500,
  create_response: true, interrupt_response: true, idle_timeout_ms: null
}
interface Transcription { model?: string, language?: string, prompt?: string }

export const defaultSession = (model: string) => ({
  type: 'realtime' as 'realtime' | 'transcription', object: 'realtime.session', id: newId('sess'), model,
  output_modalities: ['audio'], instructions: '', tools: [] as FromSchema<typeof tool>[],
  tool_choice: 'auto' as string | { name: string }, max_output_tokens: 'inf' as number | 'inf',
  include: null as string[] | null, truncation: 'auto' as unknown, tracing: null, prompt: null,
  audio: {
    input: {
      format: PCM, noise_reduction: null, transcription: null as Transcription | null,
      turn_detection: TURN as typeof TURN | null
    },
    output: { format: PCM, voice: 'alloy' as string | { id: string }, speed: 1 }
  }
})
export type SessionConfig = ReturnType<typeof defaultSession>

const FIXED = ['object', 'id', 'model']
const NESTED: Readonly<Record<string, object>> = { audio: {}, input: {}, output: {}, turn_detection: TURN }

/** Applies the fields of `changes` that the session has; lists and most objects are replaced as a whole. */
export function updated<T extends object> (session: T, changes: object): T {
  const given = Object.entries(changes).filter(([key]) => Object.hasOwn(session, key) && !FIXED.includes(key))
  return {
    ...session,
    ...Object.fromEntries(given.map(([key, value]: [string, unknown]) => {
      if (!Object.hasOwn(NESTED, key) || !isObject(value)) return [key, value]
      const before = (session as Record<string, unknown>)[key]
      return [key, updated(isObject(before) ? before : NESTED[key]!, value)]
    }))
  }
}

/** The session as clients see it; a transcription has no answers. */
export function shownSession (session: SessionConfig): object {
  if (session.type === 'realtime') return session
  const { type, id, include, audio: { input } } = session
  return { type, id, object: 'realtime.transcription_session', include, audio: { input } }
}
