import { closedObject } from '../../../kernel/index.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
/** The planner distributes layers one by one. */
const layers = { ...count, maximum: 10_000 } as const
const strings = { type: 'array', items: text } as const

const cardFile = closedObject({
  // Path relative to the model's folder; without empty segments, `.` and `..`.
  path: {
    type: 'string', maxLength: 128,
    pattern: '^(?!.*\\.\\.)(?!(.*/)?\\.(/|$))[A-Za-z0-9._+=@()-]+(/[A-Za-z0-9._+=@()-]+)*$'
  },
  role: text, bytes: count, sha256: { type: 'string', pattern: '^[0-9a-f]{64}$' }
}, ['path', 'role', 'bytes'])

const companion = closedObject({ modelId: text, role: text })

const voice = closedObject({ id: text, name: text, language: text })

export const cardSchema = closedObject({
  modelId: { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$' },
  revision: text, title: text, description: text, tasks: strings, family: text, engine: text,
  backends: strings, files: { type: 'array', items: cardFile }, totalBytes: count, nLayers: layers,
  parameters: count, hiddenSize: count, heads: count, kvHeads: count, headSize: count,
  // Fields in cards of earlier releases, which are accepted and ignored.
  valueBytes: count, cacheTokenBytes: count, stateBytes: count, drafter: { type: 'object' },
  cacheType: { enum: ['f16', 'q8_0', 'q4_0'] },
  memory: closedObject({
    weightBytes: count, tokenBytes: count, windowTokenBytes: count, windowTokens: count,
    stateBytes: count, batchTokenBytes: count, vocabulary: count, workBytes: count
  }, ['weightBytes', 'tokenBytes']),
  contextLength: count, supportsTensor: { type: 'boolean' },
  companions: { type: 'array', items: companion }, licence: text, languages: strings,
  quantization: { type: ['string', 'null'] }, voices: { type: 'array', items: voice },
  defaults: { type: 'object' }, support: { type: 'object', additionalProperties: text }
}, [
  'modelId', 'revision', 'title', 'description', 'tasks', 'family', 'engine', 'backends', 'files',
  'totalBytes', 'nLayers', 'hiddenSize', 'heads', 'kvHeads', 'headSize', 'contextLength', 'supportsTensor',
  'companions', 'licence', 'languages', 'quantization', 'voices', 'defaults', 'support'
])
