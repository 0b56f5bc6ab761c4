import type { NamedNode } from './entities.js'
import type { Intent } from './intents.js'
import type { When } from './when.js'

/** The intent and the subject of a question. */
export interface Understood {
  readonly intent: Intent
  /** The id of the named model, or the name as written if no model has it; null if none is named. */
  readonly model: string | null
  readonly node: NamedNode | null
  readonly id: string | null
  readonly when: When | null
  /** The requested aspect: the cause, the time, or the remedy. */
  readonly asks: 'cause' | 'when' | 'remedy'
  /** The path of a setting, and the minimum level of log lines, that the question names. */
  readonly setting: string | null
  readonly level: string | null
  /** Whether the question asks why something does not work as it should. */
  readonly complains: boolean
  /** The plugin whose feature the question mentions, and the error reason in the question. */
  readonly topic: string | null
  /** Whether the plugin of `topic` is disabled on the node that receives the question. */
  readonly off: boolean
  readonly error: string | null
  /** False if the intent or a name is a guess. */
  readonly sure: boolean
  /** How doubtful words were interpreted, one sentence each. */
  readonly read: readonly string[]
  /** The question as a query for the help search. */
  readonly text: string
}

/** A question understood without the earlier conversation; `counted` is the question in normalised words. */
export interface Read extends Understood { readonly counted: string, readonly weight: number }

/** A question with more words than this stands alone; a shorter one may refer to the earlier conversation. */
const SHORT = 12
/** From this weight on, an intent overrides that of the earlier conversation. */
const PLAIN_WEIGHT = 3

/** Beginnings that refer to the previous question: "and on node2?", "what about svc/guide?", "why?". */
const LEANS = /^(?:and|also|then|what about|how about|but|so|or|same|why|since|again|fine)(?= |$)/
const POINTS = /(?:^| )(?:it|its|that|this|there|they|them|same|those|he|she)(?= |$)/

/** Intents that need a name; without one they use that of the previous question. */
const NAMED = new Set<Intent>(['why-model', 'fit', 'slow', 'logs', 'node', 'what-if', 'why-request'])
/** Intents that ask for facts; if "why?" follows, look for faults. */
const TELLS = new Set<Intent>([
  'running', 'master', 'happened', 'then', 'disk', 'memory', 'settings', 'plugins', 'help', 'hello', 'other'
])
/** Intents that may be about a model on a node. */
const BOTH = new Set<Intent>(['why-model', 'logs', 'slow', 'fit', 'running', 'happened'])

/** Completes a question from the previous question, else from the last answer's first sentence. Pure. */
export function joined (own: Read, before: Understood | null, said: Read | null): Understood {
  const { counted, weight, ...asked } = own
  if (before === null && said === null) return settled(asked, counted)
  const [points, leans] = [POINTS.test(counted), LEANS.test(counted)]
  const short = counted.split(' ').length <= SHORT
  if (!short || !(points || leans || own.intent === 'other' || needsName(own))) {
    return settled(asked, counted)
  }
  const vague = own.intent === 'other' || (own.asks === 'remedy' && points) ||
    (own.asks === 'when' && weight < PLAIN_WEIGHT) || (leans && weight < PLAIN_WEIGHT)
  const intent = vague && before !== null ? kept(before, own) : own.intent
  const whole = named({ ...asked, intent }, before)
  const sure = whole.sure || (vague && before?.sure === true)
  if (hasName(whole) || said === null) return settled({ ...whole, sure }, counted)
  return settled({ ...whole, sure, model: said.model, node: said.model === null ? said.node : null }, counted)
}

/** Whether the intent needs a name that the question lacks. */
const needsName = (own: Understood): boolean =>
  NAMED.has(own.intent) && (!hasName(own) || (/^(?:logs|fit)$/.test(own.intent) && own.model === null))

const hasName = ({ model, node, id }: Understood): boolean => model !== null || node !== null || id !== null

/** The intent of the previous question, unless it does not suit the model, node or request named now. */
function kept (before: Understood, own: Read): Intent {
  const { intent } = before
  if (own.id !== null) return 'why-request'
  const about = own.model !== null ? 'why-model' : own.node !== null ? 'node' : null
  const other = /^(?:node|health|why-request|what-if|join|help|hello|other)$/.test(intent)
  if (about === 'why-model' && other) return about
  if (about === 'node' && /^(?:health|join|help|hello|other)$/.test(intent)) return about
  if (own.asks === 'cause' && /(?:^| )why(?= |$)/.test(own.counted) && TELLS.has(intent)) return 'health'
  return intent
}

function named (own: Understood, before: Understood | null): Understood {
  if (before === null) return own
  const when = own.when ?? (own.intent === before.intent ? before.when : null)
  if (!hasName(own)) return { ...own, when, model: before.model, node: before.node, id: before.id }
  const model = own.node !== null && BOTH.has(own.intent) ? own.model ?? before.model : own.model
  return { ...own, when, model }
}

/** Intents that may be complaints about a missing plugin feature. */
const MISSED = new Set<Intent>([
  'other', 'health', 'logs', 'happened', 'help', 'running', 'slow', 'fit', 'settings'
])

/** Adjusts the intent to the recognised names. */
function settled (own: Understood, counted: string): Understood {
  const { intent, model, node, when, topic } = own
  if (misses(own, counted)) return { ...own, intent: 'feature' }
  // "Show me the event log" asks for events.
  if (intent === 'logs' && topic === 'event-log') return { ...own, intent: 'happened' }
  const about = model !== null ? 'why-model' : node !== null ? 'node' : 'health'
  if (intent === 'why-model' && model === null) return { ...own, intent: about }
  if (intent === 'node' && node === null) return { ...own, intent: about }
  // What happened to a model or node is answered from its faults and events.
  if (intent === 'happened' && when === null && about !== 'health') {
    return { ...own, intent: about, asks: 'when' }
  }
  if (intent === 'error' && about !== 'health') return { ...own, intent: about }
  if (intent === 'health' || (intent === 'other' && about !== 'health')) return { ...own, intent: about }
  return intent === 'other' && when !== null ? { ...own, intent: 'happened' } : own
}

/** Words of complaints that a log is not written or sent. */
const WRITES = /(?:^| )(?:why|not|down|kept|written|recorded|counted|shipped|sent|arrives?)(?= |$)/

/** Whether a plugin's feature seems to be missing: the plugin is off, or the question complains about it. */
function misses (own: Understood, counted: string): boolean {
  const { intent, topic, off } = own
  if (topic === null || hasName(own)) return false
  if (off) return true
  if (own.when !== null || !MISSED.has(intent)) return false
  // "The error log" asks for log lines; it does not complain about a missing feature.
  return intent === 'logs' ? WRITES.test(counted) : own.complains
}
