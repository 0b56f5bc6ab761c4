/**
 * Bodies of Ollama's API. As there an unknown field is ignored, and null is as good as absent; what is known
 * there and changes an answer is honoured or refused.
 */
import { nullableFields } from '../../../runners/language/sampling.js'
import {
  BODY_BYTES, ignored, longText, name, optional, optionalText, refusedField, text, nullableInteger
} from '../fields.js'
import { sampling } from '../schema.js'

const texts = { type: ['array', 'null'], items: text } as const
const stream = optional('boolean')
const SPEED = 'how a model is run is decided when it is placed'

/** Parameters of a model: the `options` of a request, the `parameters` of a model that is made. */
export const options = {
  type: ['object', 'null'],
  properties: {
    ...nullableFields('ollama'),
    stop: sampling.stop,
    num_predict: { ...nullableInteger(-2),
      description: 'nothing, or 0 and less: as much as there is room for' },
    num_ctx: {
      ...nullableInteger(1),
      description: 'loads a model with that context; more than a loaded one has is refused'
    },
    mirostat: refusedField('is not served', 0),
    mirostat_tau: ignored('it is for mirostat'),
    mirostat_eta: ignored('it is for mirostat'),
    tfs_z: refusedField('is not served; 1 is without it', 1),
    typical_p: refusedField('is not served; 1 is without it', 1),
    penalize_newline: refusedField('is not served: a line break counts as any token', true),
    num_keep: ignored('a text that does not fit is a 400: none is shortened'),
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
    logits_all: ignored('log probabilities are asked for with logprobs')
  }
} as const

const keepAlive = {
  type: ['string', 'number', 'null'], maxLength: 64,
  description: 'how long a model that is loaded now stays without a request; 0 unloads it. A loaded one ' +
    'stays as it was placed'
} as const

/** Fields of both routes that make text. */
const common = {
  model: name,
  stream,
  format: { type: ['string', 'object', 'null'] },
  think: { type: ['boolean', 'string', 'null'] },
  keep_alive: keepAlive,
  logprobs: optional('boolean'),
  top_logprobs: nullableInteger(0, 20),
  truncate: ignored('a text that does not fit is a 400: none is shortened'),
  shift: ignored('an answer ends where the context does: no text is shortened'),
  options
} as const

/** A message of a conversation. */
const message = {
  type: 'object', required: ['role'],
  properties: {
    role: { enum: ['system', 'user', 'assistant', 'tool'] },
    content: optionalText,
    thinking: optionalText,
    images: texts,
    tool_name: optional('string'),
    tool_call_id: ignored('results belong to the calls before them, in order'),
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
      type: ['array', 'null'], items: message, description: 'none: the model is loaded, or unloaded'
    },
    tools: { type: ['array', 'null'], items: { type: 'object' } }
  }
} as const

/** Body of POST /ollama/api/generate. */
export const generateBody = {
  type: 'object', required: ['model'],
  properties: {
    ...common,
    prompt: { ...optionalText, description: 'none: the model is loaded, or unloaded' },
    system: optionalText,
    raw: optional('boolean'),
    images: texts,
    suffix: refusedField('is not served: nothing is filled in between two texts', ''),
    template: refusedField('is not served: the model has its own', ''),
    context: refusedField('is not served; send messages to /api/chat', []),
    width: refusedField('is not served: no images are made', 0),
    height: refusedField('is not served: no images are made', 0),
    steps: refusedField('is not served: no images are made', 0)
  }
} as const

const embedding = {
  model: name,
  keep_alive: keepAlive,
  truncate: ignored('a text that does not fit is a 400: none is shortened'),
  options: {
    type: ['object', 'null'],
    'x-ignored': 'nothing is chosen for a vector; of the context, a text that does not fit is a 400'
  }
} as const

/** Body of POST /ollama/api/embed. */
export const embedBody = {
  type: 'object', required: ['model'],
  properties: {
    ...embedding,
    input: { type: ['string', 'array', 'null'], ...longText, description: 'none: the model is loaded' },
    prompt: refusedField('is read by /ollama/api/embeddings; give the texts as input', ''),
    dimensions: { type: ['integer', 'null'], minimum: 1, maximum: 2 ** 31 }
  }
} as const

/** Body of POST /ollama/api/embeddings, which takes one text. */
export const embeddingsBody = {
  type: 'object', required: ['model'],
  properties: {
    ...embedding, prompt: { ...optionalText, description: 'none: the model is loaded' },
    input: refusedField('is read by /ollama/api/embed; give the text as prompt')
  }
} as const

/** A model, under either of the names of the field; Ollama's own program sends the other one empty. */
const named = {
  model: { type: 'string' }, name: { type: 'string', description: 'the older name of model' }
} as const

/** Body of POST /ollama/api/show. */
export const showBody = {
  type: 'object',
  properties: {
    ...named,
    verbose: ignored('tokens and tensors are not listed'),
    system: refusedField('is not served: make a model with it', ''),
    template: refusedField('is not served: the model has its own', ''),
    options: refusedField('is not served: make a model with them', {})
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
    insecure: ignored('the hub is that of the settings'),
    username: ignored('the hub\'s token is that of the settings'),
    password: ignored('the hub\'s token is that of the settings')
  }
} as const

/** Body of POST /ollama/api/copy. */
export const copyBody = {
  type: 'object', required: ['source', 'destination'], properties: { source: name, destination: name }
} as const

const BY_SVC = 'is not served: `svc pull FOLDER` brings a model of your own'

/** Body of POST /ollama/api/create: what is in a Modelfile, as JSON. */
export const createBody = {
  type: 'object',
  properties: {
    ...named,
    stream,
    from: { ...optional('string'), description: 'the model it is made of' },
    system: optionalText,
    parameters: options,
    messages: { type: ['array', 'null'], items: message },
    license: { type: ['string', 'array', 'null'], maxLength: BODY_BYTES, items: text },
    template: refusedField('is not served: a model has its own', ''),
    modelfile: refusedField('is not read; send what it says as from, system, parameters and messages', ''),
    files: refusedField(BY_SVC, {}),
    adapters: refusedField('are not served', {}, []),
    path: refusedField(BY_SVC, ''),
    quantize: refusedField('is not served: pull the variant', ''),
    quantization: refusedField('is not served: pull the variant', ''),
    renderer: refusedField('is not served: the model has its template', ''),
    parser: refusedField('is not served: the model has its template', ''),
    remote_host: refusedField('is not served: models run in this cluster', ''),
    draft: refusedField('is not served: pull a model with a drafter', ''),
    info: ignored('it is what the model says of itself already'),
    requires: ignored('it is about the version of Ollama')
  }
} as const
