import { messagesBody } from './api/anthropic-task.js'
import { embeddingsBody, ollamaEmbedBody, ollamaEmbeddingsBody } from './api/embedding-task.js'
import { anthropicFailure, ollamaFailure } from './api/errors.js'
import { BODY_BYTES } from './api/errors.js'
import { ollamaChatBody, ollamaGenerateBody, ollamaShowBody } from './api/ollama-task.js'
import { responsesBody } from './api/responses-task.js'
import { chatBody, completionBody, detokenizeBody, tokenizeBody } from './api/schema.js'
import type { RouteDecl } from '../../kernel/index.js'

const model = {
  method: 'POST', authority: 'invoke', stream: true, bodyLimit: BODY_BYTES
} as const

/** Ollama's clients read errors in a format of their own. */
const ollama = { ...model, failure: ollamaFailure } as const

/** What a request that a model serves may end with. */
const errors = [
  'invalid_request', 'context_length_exceeded', 'no_instance', 'payload_too_large', 'overloaded',
  'instance_lost', 'provider_error', 'session_changed', 'timeout'
] as const

const answer = (...required: string[]) => ({ type: 'object', required }) as const

/** The routes of this plugin. */
export const routes = {
  chat: {
    ...model,
    url: '/v1/chat/completions',
    summary: 'Answers a conversation (OpenAI\'s route), whole or as server-sent events.',
    body: chatBody,
    reply: answer('id', 'object', 'created', 'model', 'choices', 'usage'),
    errors
  },
  completions: {
    ...model,
    url: '/v1/completions',
    summary: 'Completes a text (OpenAI\'s older route), whole or as server-sent events.',
    body: completionBody,
    reply: answer('id', 'object', 'created', 'model', 'choices', 'usage'),
    errors
  },
  tokenize: {
    ...model,
    url: '/v1/tokenize',
    summary: 'The token ids of a text, or of a conversation as the model\'s template writes it.',
    body: tokenizeBody,
    reply: answer('tokens', 'count', 'max_model_len'),
    errors
  },
  detokenize: {
    ...model,
    url: '/v1/detokenize',
    summary: 'The text of token ids.',
    body: detokenizeBody,
    reply: answer('prompt'),
    errors
  },
  embeddings: {
    ...model,
    url: '/v1/embeddings',
    summary: 'One vector for each text (OpenAI\'s route).',
    body: embeddingsBody,
    reply: answer('object', 'data', 'model', 'usage'),
    errors
  },
  messages: {
    ...model,
    failure: anthropicFailure,
    url: '/v1/messages',
    summary: 'Answers a conversation (Anthropic\'s route), whole or as server-sent events.',
    body: messagesBody,
    reply: answer('id', 'type', 'role', 'content', 'model', 'stop_reason', 'usage'),
    errors
  },
  responses: {
    ...model,
    url: '/v1/responses',
    summary: 'Answers items of a conversation (OpenAI\'s Responses route), whole or as server-sent events.',
    body: responsesBody,
    reply: answer('id', 'object', 'created_at', 'status', 'model', 'output', 'usage'),
    errors
  },
  ollamaChat: {
    ...ollama,
    url: '/ollama/api/chat',
    summary: 'Answers a conversation (Ollama\'s route), as lines of JSON or whole.',
    body: ollamaChatBody,
    reply: answer('model', 'created_at', 'message', 'done'),
    errors
  },
  ollamaGenerate: {
    ...ollama,
    url: '/ollama/api/generate',
    summary: 'Answers a prompt (Ollama\'s route), as lines of JSON or whole.',
    body: ollamaGenerateBody,
    reply: answer('model', 'created_at', 'response', 'done'),
    errors
  },
  ollamaEmbed: {
    ...ollama,
    url: '/ollama/api/embed',
    summary: 'One vector for each text (Ollama\'s route).',
    body: ollamaEmbedBody,
    reply: answer('model', 'embeddings', 'prompt_eval_count'),
    errors
  },
  ollamaEmbeddings: {
    ...ollama,
    url: '/ollama/api/embeddings',
    summary: 'The vector of one text (Ollama\'s older route).',
    body: ollamaEmbeddingsBody,
    reply: answer('embedding'),
    errors
  },
  ollamaTags: {
    method: 'GET', url: '/ollama/api/tags', authority: 'read', failure: ollamaFailure,
    summary: 'The language models this node can name, as Ollama lists them.', reply: answer('models')
  },
  ollamaPs: {
    method: 'GET', url: '/ollama/api/ps', authority: 'read', failure: ollamaFailure,
    summary: 'The language models that are ready, as Ollama lists them.', reply: answer('models')
  },
  ollamaShow: {
    method: 'POST', url: '/ollama/api/show', authority: 'read',
    summary: 'What is known of a language model, as Ollama shows it.',
    failure: ollamaFailure,
    body: ollamaShowBody, reply: answer('details', 'model_info', 'capabilities'),
    errors: ['invalid_request', 'no_instance']
  },
  ollamaVersion: {
    method: 'GET', url: '/ollama/api/version', authority: 'read', failure: ollamaFailure,
    summary: 'The version of svc, where Ollama\'s clients look for one.', reply: answer('version')
  }
} as const satisfies Record<string, RouteDecl>
