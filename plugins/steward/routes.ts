import { closedObject, openObject, type RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const objects = { type: 'array', items: { type: 'object' } } as const
const of = (kind: string, properties: Record<string, object>) =>
  openObject({ kind: { const: kind }, ...properties })
const evidence = {
  type: 'array', items: {
    anyOf: [
      of('event', { idx: { type: 'integer' }, at: text, name: text }), of('trace', { taskId: text }),
      of('node', { nodeId: text, name: text }), of('error', { reason: text }), of('time', { at: text }),
      of('log', { node: text, at: text }), of('path', { path: text })
    ]
  }
}
const fact = openObject({
  level: { enum: ['fail', 'warn', 'ok', 'info'] }, code: text, text, about: texts, evidence,
  remedy: { type: ['string', 'null'] }
})

/** Character limit for a question and for each earlier message, and the limit on earlier messages. */
export const QUESTION_MAX = 4000
export const TURN_MAX = 40_000
export const THREAD_MAX = 100

export const routes = {
  status: {
    method: 'GET', url: '/v1/steward', authority: 'read',
    summary: 'Whether the steward answers questions, and the model that words its answers.',
    reply: closedObject({
      enabled: { type: 'boolean' }, present: { type: 'boolean' }, ready: { type: 'boolean' },
      steward_model: { type: ['string', 'null'] }, instance_id: { type: ['string', 'null'] },
      state: { enum: ['disabled', 'downloading', 'starting', 'ready', 'degraded'] },
      reason: { type: ['string', 'null'], description: 'Why the model has no place, or failed.' }
    })
  },
  ask: {
    method: 'POST', url: '/v1/steward/ask', authority: 'read', stream: true,
    summary: 'Answers a question about the cluster with its evidence, whole or as server-sent events.',
    body: closedObject({
      question: { ...text, minLength: 1, maxLength: QUESTION_MAX },
      thread: {
        type: 'array', maxItems: THREAD_MAX, description: 'What was said before, oldest first.',
        items: closedObject({ role: { enum: ['user', 'assistant'] }, text: { ...text, maxLength: TURN_MAX } })
      },
      stream: { type: 'boolean', default: false }
    }, ['question']),
    reply: openObject({
      diagnosis: text, sure: { type: 'boolean' }, facts: { type: 'array', items: fact }, evidence,
      remedies: texts, unknown: texts, voice: text, calls: objects, text
    }),
    errors: ['invalid_request', 'steward_disabled', 'not_ready']
  }
} as const satisfies Record<string, RouteDecl>
