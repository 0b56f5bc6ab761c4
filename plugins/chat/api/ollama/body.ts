/**
 * Request bodies for Ollama's API. As in Ollama, unknown fields are ignored and null means absent; a known
 * field that changes an answer is honoured or refused.
 */
import { nullableFields } from '../../../runners/language/sampling.js'
import {
  ignored, longText, name, optional, optionalText, refusedField, text, nullableInteger
} from '../fields.js'
import { sampling } from '../schema.js'

const texts = { type: ['array', 'null'], items: text } as const
const stream = optional('boolean')
const SPEED = 'placement decides how a model runs'

/** `options` of a request: model parameters. */
const options = {
  type: ['object', 'null'],
  properties: {
    ...nullableFields('ollama'),
    stop: sampling.stop,
    num_predict: { ...nullableInteger(-2), description: 'absent, 0 or less: no limit' },
    num_ctx: {
      ...nullableInteger(1),
      description: 'loads the model with this context; refused if the loaded model has less'
    },
    mirostat: refusedField('is not served', 0),
    mirostat_tau: ignored('only mirostat uses it'),
    mirostat_eta: ignored('only mirostat uses it'),
    tfs_z: refusedField('is not served; 1 disables it', 1),
    typical_p: refusedField('is not served; 1 disables it', 1),
    penalize_newline: refusedField('is not served: a newline is penalized like any token', true),
    num_keep: ignored('a text that does not fit is a 400: svc does not truncate'),
    draft_num_predict: ignored(SPEED),
    num_batch: ignored(SPEED),
    num_gpu: ignored(SPEED),
    main_gpu: ignored(SPEED),
    num_thread: ignored(SPEED),
    numa: ignored(SPEED),
    low_vram: ignored(SPEED),
    f16_kv: ignored(SPEED),
    use_mmap: ignored(SPEED),
    use_mlock: ignored(SPEED),
    vocab_only: refusedField('is not served', false),
    logits_all: ignored('logprobs requests log probabilities')
  }
} as const

const keepAlive = {
  type: ['string', 'number', 'null'], maxLength: 64,
  description: 'idle time until a model that this request loads is unloaded; 0 unloads the model after ' +
    'the request. A model that is already loaded keeps the idle time of its placement'
} as const

/** Fields shared by chat and generate requests. */
const common = {
  model: name,
  stream,
  format: { type: ['string', 'object', 'null'] },
  think: { type: ['boolean', 'string', 'null'] },
  keep_alive: keepAlive,
  logprobs: optional('boolean'),
  top_logprobs: nullableInteger(0, 20),
  truncate: ignored('a text that does not fit is a 400: svc does not truncate'),
  shift: ignored('an answer ends when the context is full: svc does not truncate'),
  options
} as const

const message = {
  type: 'object', required: ['role'],
  properties: {
    role: { enum: ['system', 'user', 'assistant', 'tool'] },
    content: optionalText,
    thinking: optionalText,
    images: texts,
    tool_name: optional('string'),
    tool_call_id: ignored('results belong to the preceding calls, in order'),
    tool_calls: {
      type: ['array', 'null'],
      items: {
        type: 'object', required: ['function'],
        properties: {
          function: {
            type: 'object', required: ['name'], properties: { name, arguments: optional('object') }
          }
        }
      }
    }
  }
} as const

/** Body of POST /ollama/api/chat. */
export const chatBody = {
  type: 'object', required: ['model'],
  properties: {
    ...common,
    messages: {
      type: ['array', 'null'], items: message, description: 'without it the model is only loaded or unloaded'
    },
    tools: { type: ['array', 'null'], items: { type: 'object' } }
  }
} as const

/** Body of POST /ollama/api/generate. */
export const generateBody = {
  type: 'object', required: ['model'],
  properties: {
    ...common,
    prompt: { ...optionalText, description: 'without it the model is only loaded or unloaded' },
    system: optionalText,
    raw: optional('boolean'),
    images: texts,
    suffix: refusedField('is not served: there is no fill-in-the-middle', ''),
    template: refusedField('is not served: the model has its own template', ''),
    context: refusedField('is not served; send messages to /api/chat', []),
    width: refusedField('is not served: svc does not generate images', 0),
    height: refusedField('is not served: svc does not generate images', 0),
    steps: refusedField('is not served: svc does not generate images', 0)
  }
} as const

const embedding = {
  model: name,
  keep_alive: keepAlive,
  truncate: {
    ...optional('boolean'),
    description: 'false: a text that does not fit is a 400; otherwise its first tokens are used'
  },
  options: { type: ['object', 'null'], 'x-ignored': 'embeddings use no sampling' }
} as const

/** Body of POST /ollama/api/embed. */
export const embedBody = {
  type: 'object', required: ['model'],
  properties: {
    ...embedding,
    input: {
      type: ['string', 'array', 'null'], ...longText, description: 'without it the model is only loaded'
    },
    prompt: refusedField('belongs to /ollama/api/embeddings; send the texts as input', ''),
    dimensions: { type: ['integer', 'null'], minimum: 1, maximum: 2 ** 31 }
  }
} as const

/** Body of POST /ollama/api/embeddings, which accepts one string. */
export const embeddingsBody = {
  type: 'object', required: ['model'],
  properties: {
    ...embedding, prompt: { ...optionalText, description: 'without it the model is only loaded' },
    input: refusedField('belongs to /ollama/api/embed; send the text as prompt')
  }
} as const

/** A model under either field name; Ollama's own client sends an empty string in the other field. */
const named = {
  model: { type: 'string' }, name: { type: 'string', description: 'the older name of model' }
} as const

/** Body of POST /ollama/api/show. */
export const showBody = {
  type: 'object',
  properties: {
    ...named,
    verbose: ignored('tokens and tensors are not listed'),
    system: refusedField('is not served: send it with a request', ''),
    template: refusedField('is not served: the model has its own template', ''),
    options: refusedField('is not served: send them with a request', {})
  }
} as const

/** Body of DELETE /ollama/api/delete. */
export const deleteBody = { type: 'object', properties: named } as const

/** Body of POST /ollama/api/pull. */
export const pullBody = {
  type: 'object',
  properties: {
    ...named,
    stream,
    insecure: ignored('the settings name the hub'),
    username: ignored('the settings contain the hub\'s token'),
    password: ignored('the settings contain the hub\'s token')
  }
} as const
