import {
  closedObject, openObject, type CapabilityDecl, type ErrorDecl, type RouteDecl
} from '../../kernel/index.js'

const name = { type: 'string', minLength: 1 } as const
const seconds = { type: 'number', minimum: 0 } as const
const text = { type: 'string' } as const

export const stt = {
  id: 'stt', version: '1.0.0', title: 'Speech to text',
  description: 'Writes down speech while it arrives: chunks carry 16-bit mono sound, the answer has ' +
    'partial and final text.',
  input_schema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...closedObject({
      model: { ...name, maxLength: 200 }, sample_rate: { type: 'integer', minimum: 8000, maximum: 48_000 },
      task: { enum: ['transcribe', 'translate'] }, language: { type: 'string', minLength: 2, maxLength: 40 },
      prompt: { type: 'string', maxLength: 10_000 }, temperature: { type: 'number', minimum: 0, maximum: 1 },
      words: { type: 'boolean' }, logprobs: { type: 'boolean' }, live: { type: 'boolean' },
      partials: { type: 'boolean' },
      turn: closedObject({
        threshold: { type: 'number', minimum: 0, maximum: 1 },
        prefix_padding_ms: { type: 'integer', minimum: 0, maximum: 5000 },
        silence_duration_ms: { type: 'integer', minimum: 100, maximum: 5000 }
      }, [])
    }, ['model'])
  },
  output_schema: null, io_mode: 'bidirectional',
  input_chunk_schema: closedObject({}),
  output_chunk_schema: closedObject({
    event: { enum: ['language', 'speech_started', 'speech_stopped', 'partial', 'segment', 'done'] },
    language: text, at: seconds, duration: seconds, id: { type: 'integer', minimum: 0 }, start: seconds,
    end: seconds, text, tokens: { type: 'array', items: { type: 'integer' } },
    temperature: { type: 'number' }, avg_logprob: { type: 'number' }, compression_ratio: { type: 'number' },
    no_speech_prob: { type: 'number' }, words: { type: 'array', items: { type: 'object' } },
    logprobs: { type: 'array', items: { type: 'object' } }, final: { type: 'boolean' }
  }, ['event']),
  annotations: { modality: 'text', latency: 'interactive', runtime: 'onnxruntime', stability: 'experimental' }
} as const satisfies CapabilityDecl

const MEDIA = ['application/json', 'text/plain', 'application/x-subrip', 'text/vtt'] as const

/** Fields of a form; the file is read as a stream. */
const form = openObject({
  file: {
    type: 'string', format: 'binary', description: 'wav, mp3, m4a, webm, ogg or flac, found by its content'
  },
  model: { ...name, description: 'a placed model, or whisper-1, gpt-4o-transcribe and the like' },
  prompt: text, response_format: { enum: ['json', 'text', 'srt', 'verbose_json', 'vtt'], default: 'json' },
  temperature: { type: 'number', minimum: 0, maximum: 1 }
}, ['file', 'model'])

const common = {
  method: 'POST', authority: 'invoke', stream: true, api: 'OpenAI', produces: 'application/json',
  errors: [
    'no_instance', 'wrong_task', 'invalid_request', 'payload_too_large', 'unsupported_media_type',
    'audio_undecodable', 'audio_too_long', 'audio_unsupported', 'language_unknown', 'overloaded',
    'instance_lost', 'session_changed', 'provider_error', 'timeout'
  ]
} as const

export const routes = {
  transcriptions: {
    ...common, url: '/v1/audio/transcriptions',
    summary: 'Writes down speech (OpenAI\'s route): json, text, srt, vtt or verbose_json, or events.',
    streams: [...MEDIA, 'text/event-stream'],
    uploads: {
      'multipart/form-data': {
        ...form,
        properties: {
          ...form.properties,
          language: { type: 'string', description: 'ISO 639-1 code; detected when absent' },
          'timestamp_granularities[]': {
            type: 'array', items: { enum: ['word', 'segment'] }, description: 'with verbose_json'
          },
          'include[]': { type: 'array', items: { enum: ['logprobs'] }, description: 'with json' },
          chunking_strategy: { type: 'string', description: 'accepted: sound is always cut at pauses' },
          stream: { type: 'boolean', description: 'server-sent events, with json or text' }
        }
      }
    }
  },
  translations: {
    ...common, url: '/v1/audio/translations',
    summary: 'Writes down speech of any language in English (OpenAI\'s route).', streams: MEDIA,
    uploads: { 'multipart/form-data': form }
  }
} as const satisfies Record<string, RouteDecl>

export const config = closedObject({
  model_aliases: {
    type: 'object', default: {}, additionalProperties: name,
    description: 'Aliases of models for speech to text, e.g. {whisper: onnx-community/whisper-base}.'
  },
  openai_names: {
    type: 'boolean', default: true,
    description: 'Whether OpenAI\'s names (whisper-1, gpt-4o-transcribe) select the placed model.'
  },
  max_upload_mib: {
    type: 'integer', minimum: 1, maximum: 16_384, default: 1024,
    description: 'Largest recording that a request may send, MiB.'
  }
}, [])

export const errors = {
  audio_undecodable: {
    status: 400, retryable: false, message: 'The file has no sound that can be decoded.',
    remedy: 'Send wav, mp3, m4a, webm, ogg or flac; `ffmpeg -i FILE out.wav` converts others.'
  },
  audio_unsupported: {
    status: 400, retryable: false, message: 'The sound has too many channels, or too high a sampling rate.',
    remedy: 'Convert it: `ffmpeg -i FILE -ac 1 -ar 16000 out.wav`.'
  },
  language_unknown: {
    status: 400, retryable: false, message: 'The model does not know the language of the speech.',
    remedy: 'Leave `language` out to have it found, or place a multilingual model.'
  },
  audio_too_long: {
    status: 413, retryable: false, message: 'The recording is too long.',
    remedy: 'Cut it into parts and send one after the other.'
  }
} as const satisfies Record<string, ErrorDecl>
