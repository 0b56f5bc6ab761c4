/** `plugins.capabilities-tts` in svc.yaml. */
export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    model_aliases: {
      type: 'object', default: {}, additionalProperties: { type: 'string', minLength: 1 },
      description: 'Names clients may use for a model on /v1/audio routes, e.g. {tts-1: svc/voice-en}.'
    },
    voice_aliases: {
      type: 'object', default: {}, additionalProperties: { type: 'string', minLength: 1 },
      description: 'Names clients may use for a voice on /v1/audio routes, e.g. {alloy: slt}.'
    }
  }
} as const
