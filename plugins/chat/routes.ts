import { answerFields } from './api/answer-fields.js'
import { countBody, messagesBody } from './api/anthropic-body.js'
import { embeddingsBody, rerankBody } from './api/embeddings.js'
import { BODY_BYTES } from './api/fields.js'
import { anthropicFailure, ollamaFailure, openAiFailure } from '../staging/service.js'
import * as ollamaBodies from './api/ollama/body.js'
import { inputTokensBody, responsesBody } from './api/responses-body.js'
import { chatBody, completionBody } from './api/schema.js'
import { detokenizeBody, tokenizeBody } from './api/tokens.js'
import type { RouteDecl } from '../../kernel/index.js'

/** Declares a response schema in which the named fields are required. */
const reply = (...required: string[]) =>
  ({ reply: { type: 'object', required, properties: answerFields(required) } }) as const

/** Declaration shared by all routes that a model answers. */
const served = {
  method: 'POST', authority: 'invoke', stream: true, bodyLimit: BODY_BYTES,
  errors: [
    'invalid_request', 'context_length_exceeded', 'tool_call_unreadable', 'invalid_result', 'no_instance',
    'wrong_task', 'payload_too_large', 'overloaded', 'instance_lost', 'provider_error', 'session_changed',
    'timeout'
  ]
} as const

const openAi = { ...served, api: 'OpenAI', failure: openAiFailure } as const
const anthropic = {
  ...served, api: 'Anthropic', failure: anthropicFailure, idHeader: 'request-id',
  query: {
    type: 'object', additionalProperties: false,
    properties: { beta: { type: 'string', description: 'its clients send it; it has no effect' } }
  }
} as const

const ollama = {
  ...served, api: 'Ollama', failure: ollamaFailure, streams: ['application/x-ndjson'], anyContentType: true,
  asks: ['POST /place_instance', 'DELETE /instance/:instance_id']
} as const
const ollamaGet = { method: 'GET', authority: 'read', failure: ollamaFailure } as const
/** Ollama's routes that pull and delete models; a pull streams its progress as lines. */
const ollamaManage = {
  ...ollama, authority: 'cluster:write',
  errors: ['invalid_request', 'no_instance', 'no_master', 'no_quorum', 'session_changed'],
  asks: ['POST /store/models/:model_id/download', 'DELETE /store/models/:model_id']
} as const

export const routes = {
  chat: {
    ...openAi, url: '/v1/chat/completions', also: ['/ollama/v1/chat/completions'], body: chatBody,
    summary: 'Answers a conversation (OpenAI\'s route), whole or as server-sent events.',
    ...reply('id', 'object', 'created', 'model', 'choices', 'usage')
  },
  completions: {
    ...openAi, url: '/v1/completions', also: ['/ollama/v1/completions'], body: completionBody,
    summary: 'Completes a text (OpenAI\'s older route), whole or as server-sent events.',
    ...reply('id', 'object', 'created', 'model', 'choices', 'usage')
  },
  embeddings: {
    ...openAi, url: '/v1/embeddings', also: ['/ollama/v1/embeddings'], body: embeddingsBody,
    summary: 'One vector for each text (OpenAI\'s route).', ...reply('object', 'data', 'model', 'usage')
  },
  tokenize: {
    ...served, url: '/v1/tokenize', body: tokenizeBody,
    summary: 'The token ids of a text, or of a conversation in the model\'s template.',
    ...reply('tokens', 'count', 'max_model_len')
  },
  detokenize: {
    ...served, url: '/v1/detokenize', body: detokenizeBody,
    summary: 'The text of token ids.', ...reply('prompt')
  },
  rerank: {
    ...openAi, url: '/v1/rerank', body: rerankBody,
    summary: 'Relevance of each document to a query (the route of Jina and Cohere), best first.',
    ...reply('object', 'model', 'results', 'usage')
  },
  messages: {
    ...anthropic, url: '/v1/messages', body: messagesBody, errors: [...served.errors, 'not_kept'],
    summary: 'Answers a conversation (Anthropic\'s route), whole or as server-sent events.',
    ...reply('id', 'type', 'role', 'content', 'model', 'stop_reason', 'usage')
  },
  countMessages: {
    ...anthropic, url: '/v1/messages/count_tokens', body: countBody,
    summary: 'Counts the tokens of a conversation (Anthropic\'s route).', ...reply('input_tokens')
  },
  responses: {
    ...openAi, url: '/v1/responses', body: responsesBody,
    summary: 'Answers a conversation (OpenAI\'s Responses route), whole or as server-sent events.',
    ...reply('id', 'object', 'created_at', 'status', 'model', 'output', 'usage')
  },
  inputTokens: {
    ...openAi, url: '/v1/responses/input_tokens', body: inputTokensBody,
    summary: 'Counts the tokens of a conversation (OpenAI\'s Responses route).',
    ...reply('object', 'input_tokens')
  },
  ollama: {
    method: 'GET', url: '/ollama', also: ['/ollama/'], authority: null, failure: ollamaFailure,
    produces: 'text/plain; charset=utf-8', summary: 'Confirms that Ollama\'s API is available.'
  },
  ollamaChat: {
    ...ollama, url: '/ollama/api/chat', also: ['/api/chat'], body: ollamaBodies.chatBody,
    summary: 'Answers a conversation (Ollama\'s route), as lines of JSON or whole.',
    ...reply('model', 'created_at', 'message', 'done')
  },
  ollamaGenerate: {
    ...ollama, url: '/ollama/api/generate', also: ['/api/generate'], body: ollamaBodies.generateBody,
    summary: 'Answers a prompt (Ollama\'s route), as lines of JSON or whole.',
    ...reply('model', 'created_at', 'response', 'done')
  },
  ollamaEmbed: {
    ...ollama, url: '/ollama/api/embed', also: ['/api/embed'], body: ollamaBodies.embedBody,
    summary: 'One vector for each text (Ollama\'s route).',
    ...reply('model', 'embeddings', 'prompt_eval_count')
  },
  ollamaEmbeddings: {
    ...ollama, url: '/ollama/api/embeddings', also: ['/api/embeddings'], body: ollamaBodies.embeddingsBody,
    summary: 'The vector of one text (Ollama\'s older route).', ...reply('embedding')
  },
  ollamaTags: {
    ...ollamaGet, url: '/ollama/api/tags', also: ['/api/tags'],
    summary: 'The language models that this node knows, in Ollama\'s format.', ...reply('models')
  },
  ollamaPs: {
    ...ollamaGet, url: '/ollama/api/ps', also: ['/api/ps'],
    summary: 'The language models that are ready, in Ollama\'s format.', ...reply('models')
  },
  ollamaShow: {
    ...ollama, authority: 'read', stream: false, url: '/ollama/api/show', also: ['/api/show'],
    body: ollamaBodies.showBody,
    summary: 'Details of a language model, in Ollama\'s format.',
    ...reply('details', 'model_info', 'capabilities'), errors: ['invalid_request', 'no_instance']
  },
  ollamaPull: {
    ...ollamaManage, url: '/ollama/api/pull', also: ['/api/pull'], body: ollamaBodies.pullBody,
    summary: 'Downloads a model from the hub into the store (Ollama\'s route), as lines of JSON or whole.',
    ...reply('status')
  },
  ollamaDelete: {
    ...ollamaManage, method: 'DELETE', url: '/ollama/api/delete', also: ['/api/delete'],
    stream: false, audit: 'best-effort',
    body: ollamaBodies.deleteBody, summary: 'Removes a model from the store (Ollama\'s route).'
  },
  lmStudioModels: {
    method: 'GET', url: '/api/v0/models', authority: 'read', failure: openAiFailure,
    summary: 'The language models and whether they are loaded, in LM Studio\'s format.',
    ...reply('object', 'data')
  },
  running: {
    method: 'GET', url: '/running', authority: 'read',
    summary: 'The models that are loaded or starting (llama-swap\'s route).', ...reply('running')
  },
  unload: {
    method: 'POST', url: '/unload', authority: 'cluster:write', audit: 'best-effort',
    asks: ['DELETE /instance/:instance_id'],
    summary: 'Unloads every model with a time to live (llama-swap\'s route).', ...reply('unloaded')
  },
  ollamaVersion: {
    ...ollamaGet, url: '/ollama/api/version', also: ['/api/version'],
    summary: 'The version of svc, for Ollama\'s clients.', ...reply('version')
  }
} as const satisfies Record<string, RouteDecl>
