import { anthropicFailure, messagesBody } from './api/anthropic.js'
import { embeddingsBody, ollamaEmbedBody, ollamaEmbeddingsBody } from './api/embeddings.js'
import { ollamaChatBody, ollamaFailure, ollamaGenerateBody, ollamaShowBody } from './api/ollama.js'
import { detokenizeBody, tokenizeBody } from './api/openai.js'
import { responsesBody } from './api/responses.js'
import { chatBody, completionBody } from './api/schema.js'
import type { RouteDecl } from '../../kernel/index.js'

/** Largest body in bytes. */
export const BODY_BYTES = 4 * 1024 * 1024

/** Fields that the answer of a route always has. */
const reply = (...required: string[]) => ({ reply: { type: 'object', required } }) as const

/** What routes have in common that a model serves. */
const served = {
  method: 'POST', authority: 'invoke', stream: true, bodyLimit: BODY_BYTES,
  errors: [
    'invalid_request', 'context_length_exceeded', 'tool_call_unreadable', 'no_instance',
    'payload_too_large', 'overloaded', 'instance_lost', 'provider_error', 'session_changed', 'timeout'
  ]
} as const

/** Ollama's clients read errors in a format of their own. */
const ollama = { ...served, failure: ollamaFailure } as const
const ollamaGet = { method: 'GET', authority: 'read', failure: ollamaFailure } as const

/** The routes of this plugin. */
export const routes = {
  chat: {
    ...served, url: '/v1/chat/completions', body: chatBody,
    summary: 'Answers a conversation (OpenAI\'s route), whole or as server-sent events.',
    ...reply('id', 'object', 'created', 'model', 'choices', 'usage')
  },
  completions: {
    ...served, url: '/v1/completions', body: completionBody,
    summary: 'Completes a text (OpenAI\'s older route), whole or as server-sent events.',
    ...reply('id', 'object', 'created', 'model', 'choices', 'usage')
  },
  tokenize: {
    ...served, url: '/v1/tokenize', body: tokenizeBody,
    summary: 'The token ids of a text, or of a conversation as the model\'s template writes it.',
    ...reply('tokens', 'count', 'max_model_len')
  },
  detokenize: {
    ...served, url: '/v1/detokenize', body: detokenizeBody,
    summary: 'The text of token ids.', ...reply('prompt')
  },
  embeddings: {
    ...served, url: '/v1/embeddings', body: embeddingsBody,
    summary: 'One vector for each text (OpenAI\'s route).', ...reply('object', 'data', 'model', 'usage')
  },
  messages: {
    ...served, failure: anthropicFailure, url: '/v1/messages', body: messagesBody,
    summary: 'Answers a conversation (Anthropic\'s route), whole or as server-sent events.',
    ...reply('id', 'type', 'role', 'content', 'model', 'stop_reason', 'usage')
  },
  responses: {
    ...served, url: '/v1/responses', body: responsesBody,
    summary: 'Answers items of a conversation (OpenAI\'s Responses route), whole or as server-sent events.',
    ...reply('id', 'object', 'created_at', 'status', 'model', 'output', 'usage')
  },
  ollamaChat: {
    ...ollama, url: '/ollama/api/chat', body: ollamaChatBody,
    summary: 'Answers a conversation (Ollama\'s route), as lines of JSON or whole.',
    ...reply('model', 'created_at', 'message', 'done')
  },
  ollamaGenerate: {
    ...ollama, url: '/ollama/api/generate', body: ollamaGenerateBody,
    summary: 'Answers a prompt (Ollama\'s route), as lines of JSON or whole.',
    ...reply('model', 'created_at', 'response', 'done')
  },
  ollamaEmbed: {
    ...ollama, url: '/ollama/api/embed', body: ollamaEmbedBody,
    summary: 'One vector for each text (Ollama\'s route).',
    ...reply('model', 'embeddings', 'prompt_eval_count')
  },
  ollamaEmbeddings: {
    ...ollama, url: '/ollama/api/embeddings', body: ollamaEmbeddingsBody,
    summary: 'The vector of one text (Ollama\'s older route).', ...reply('embedding')
  },
  ollamaTags: {
    ...ollamaGet, url: '/ollama/api/tags',
    summary: 'The language models this node can name, as Ollama lists them.', ...reply('models')
  },
  ollamaPs: {
    ...ollamaGet, url: '/ollama/api/ps',
    summary: 'The language models that are ready, as Ollama lists them.', ...reply('models')
  },
  ollamaShow: {
    method: 'POST', authority: 'read', failure: ollamaFailure, url: '/ollama/api/show', body: ollamaShowBody,
    summary: 'What is known of a language model, as Ollama shows it.',
    ...reply('details', 'model_info', 'capabilities'), errors: ['invalid_request', 'no_instance']
  },
  ollamaVersion: {
    ...ollamaGet, url: '/ollama/api/version',
    summary: 'The version of svc, where Ollama\'s clients look for one.', ...reply('version')
  }
} as const satisfies Record<string, RouteDecl>
