import type { Replies } from '../../../../docs/reference/replies.js'

export type Answer = Replies['POST /v1/steward/ask']
export type Evidence = Answer['evidence'][number]
type TurnEvent =
  { type: 'call', tool: string } | { type: 'text', text: string } | { type: 'answer', answer: Answer }

export interface Turn {
  question: string, tools: readonly string[], text: string, answer: Answer | null, error: string | null
}

export const asked = (question: string): Turn =>
  ({ question, tools: [], text: '', answer: null, error: null })

/** Adds an event from the answer stream to a turn; an error event ends the turn. */
export function withEvent (turn: Turn, data: string): Turn {
  const event = JSON.parse(data) as TurnEvent | { error: { message: string } }
  if ('error' in event) return { ...turn, error: event.error.message }
  if (event.type === 'call') return { ...turn, tools: [...turn.tools, event.tool.replaceAll('_', ' ')] }
  if (event.type === 'text') return { ...turn, text: turn.text + event.text }
  return { ...turn, answer: event.answer }
}

export function threadOf (turns: readonly Turn[]): { role: 'user' | 'assistant', text: string }[] {
  return turns.filter(({ text }) => text !== '').slice(-20).flatMap(({ question, text }) =>
    [{ role: 'user' as const, text: question }, { role: 'assistant' as const, text }])
}

interface Place { words: string, parts: string[] | null, query?: Record<string, string> }

/** The label of a piece of evidence, and the path of the page that shows it (null if none does). */
export function placeOf (one: Evidence): Place {
  switch (one.kind) {
    case 'event':
      return { words: `event ${one.idx}: ${one.name}`, parts: ['happened', 'events', String(one.idx)] }
    case 'trace':
      return { words: `trace ${one.taskId.slice(0, 8)}`, parts: ['happened', 'traces', one.taskId] }
    case 'node': return { words: `node ${one.name}`, parts: ['cluster', one.nodeId] }
    case 'log': return {
      words: `log of ${one.node}`, parts: ['happened', 'logs'],
      query: { node: one.node, since: one.at, level: 'trace' }
    }
    case 'time': return { words: `the cluster at ${one.at}`, parts: ['happened', 'past', one.at] }
    case 'error': return { words: `reason ${one.reason}`, parts: null }
    case 'path': return { words: `GET ${one.path}`, parts: partsOf(one.path) }
  }
}

function partsOf (address: string): string[] | null {
  const [path = ''] = address.split('?')
  const trace = /^\/v1\/traces\/(?:cluster\/)?([\w-]+)$/.exec(path)?.[1]
  const model = /^\/models\/(.+)\/availability$/.exec(path)?.[1]
  if (trace !== undefined && trace !== 'cluster') return ['happened', 'traces', trace]
  return model !== undefined ? ['models', model] : PLACES[path] ?? null
}

const PLACES: Readonly<Record<string, string[]>> = {
  '/state': ['cluster'], '/events': ['happened', 'events'], '/v1/logs': ['happened', 'logs'],
  '/v1/logs/cluster': ['happened', 'logs'], '/v1/traces': ['happened', 'traces'],
  '/v1/traces/cluster': ['happened', 'traces'], '/metrics': ['happened', 'metrics'], '/config': ['settings'],
  '/plugins': ['settings', 'plugins'], '/v1/tokens': ['settings', 'tokens'],
  '/cluster/members': ['settings', 'members'], '/v1/models': ['models']
}
