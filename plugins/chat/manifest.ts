import { OwnApiService, type Manifest } from '../../kernel/index.js'
import { InvocationService } from '../capabilities/service.js'
import { InstanceService, RunnersService } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { notKeptDecl } from './api/errors.js'
import { verbs } from './cli/verbs.js'
import { config } from './config.js'
import { chatCapability, embeddingsCapability } from './descriptor.js'
import { refusesCard } from './refusals.js'
import { routes } from './routes.js'
import { ChatService } from './service.js'

export const manifest = {
  name: 'chat', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Serves language models through the APIs of OpenAI, Anthropic and Ollama.',
  requires: ['capabilities', 'runners'], after: ['staging', 'llama-cpp'],
  consumes: { runners: RunnersService, invocations: InvocationService, own: OwnApiService },
  consumesOptional: { instances: InstanceService, models: ModelsService },
  provides: { chat: ChatService },
  config, routes,
  errors: {
    context_length_exceeded: {
      status: 400, retryable: false,
      message: 'context_length_exceeded: the prompt is over the maximum context length of the model.',
      remedy: 'Send fewer or shorter messages (for embeddings: smaller chunks, or truncate_prompt_tokens), ' +
        'or use a model with a longer context: GET /v1/models shows context_length.'
    },
    not_kept: notKeptDecl,
    tool_call_unreadable: {
      status: 502, retryable: true, message: 'The model began a tool call that cannot be parsed.',
      remedy: 'Retry with a temperature above 0 or with fewer, simpler tools; tool_choice "none" gives a ' +
        'text answer.'
    }
  },
  capabilities: { chat: chatCapability, embeddings: embeddingsCapability },
  engines: {
    'onnx-lm': {
      summary: 'Embedding models in the public ONNX layouts, on onnxruntime.',
      module: new URL('./embed/index.js', import.meta.url).href,
      cards: new URL('./embed/card-reader.js', import.meta.url).href, backends: ['cpu'],
      backendsWhy: 'its models are small enough for a CPU', refuses: refusesCard, batch: 16, overhead: 1.3,
      // Measured memory of a loaded encoder, not including weights but including onnxruntime's arenas.
      fixedBytes: 256 * 2 ** 20
    }
  },
  models: { 'svc/guide': { folder: new URL('./guide/model/', import.meta.url).href } },
  tools: {
    help: {
      summary: 'How to do something with svc, and what its terms mean: the answers of `svc help`.',
      args: {
        type: 'object', additionalProperties: false, required: ['question'],
        properties: { question: { type: 'string', minLength: 1, maxLength: 400 } }
      },
      load: () => import('./tools/help.js')
    }
  },
  verbs
} as const satisfies Manifest
