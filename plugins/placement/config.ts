/** Schema of `plugins.placement` in svc.yaml. */
export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    autoplace: {
      type: 'array',
      items: { type: 'string', minLength: 3, maxLength: 200, pattern: '^[^/\\s]+/[^/\\s]+$' },
      uniqueItems: true,
      description:
        'Models the cluster places by itself, each once, where they fit. Left out: every model that ships ' +
        'with an enabled plugin. An empty list places none. The list of the master counts.'
    },
    drain_seconds: {
      type: 'integer',
      minimum: 0,
      maximum: 3600,
      default: 0,
      description: 'How long an instance that DELETE stops may go on with the requests it has where the ' +
        'request does not say it, seconds.'
    },
    on_demand: {
      type: 'boolean',
      default: false,
      description: 'A request for a model that is known and not placed places it and waits for it.'
    },
    on_demand_ttl_seconds: {
      type: 'integer',
      minimum: 1,
      maximum: 2_592_000,
      default: 300,
      description: 'What was placed by a request is unloaded after so long without another one, seconds.'
    }
  }
} as const
