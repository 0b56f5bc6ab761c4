import { AuditService, definePlugin, openObject } from '../../kernel/index.js'
import { ListeningService } from '../capabilities-stt/service.js'
import { SpeechService } from '../capabilities-tts/service.js'
import { RunnersService } from '../runners/service.js'
import { openPort } from './port.js'

export default definePlugin({
  name: 'wyoming',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Speech for Home Assistant, by the Wyoming protocol on a port of its own; off by default.',
  requires: ['runners', 'capabilities-stt', 'capabilities-tts'],
  consumes: { runners: RunnersService, listening: ListeningService, speech: SpeechService },
  consumesOptional: { audit: AuditService },
  settings: {
    wyoming: {
      'type': 'object', 'additionalProperties': false, 'x-local': true,
      'description': 'The Wyoming port for Home Assistant. It has no credentials and no encryption.',
      'properties': {
        port: {
          type: ['integer', 'null'], minimum: 0, maximum: 65_535, default: null, examples: [10_300],
          description: 'TCP port, usually 10300; 0: any free port. Null: off.'
        },
        allow: {
          type: 'array', items: { type: 'string', format: 'cidr' }, uniqueItems: true, maxItems: 100,
          default: [], examples: [['192.168.1.10']],
          description: 'Addresses that may use speech without a token. Empty: this machine only.'
        }
      }
    }
  },
  routes: {
    view: {
      method: 'GET', url: '/v1/wyoming', authority: 'operator',
      summary: 'The Wyoming port, and who may use it.',
      reply: openObject({
        port: { type: ['integer', 'null'] }, allow: { type: 'array', items: { type: 'string' } },
        reason: { type: ['string', 'null'], description: 'why the port cannot be opened' }
      })
    }
  },
  checks: {
    wyoming: {
      summary: 'Who may use speech without a token.',
      load: async () => ({ default: (await import('./report.js')).doctor })
    }
  }
}, (ctx) => {
  const { port, allow } = ctx.settings.wyoming
  const { audit, ...services } = ctx.deps
  if (port === null) return { routes: { view: () => ({ port, allow: [], reason: null }) } }
  const opened = openPort({ ...services, version: ctx.node.version, log: ctx.log }, {
    port, allow, node: ctx.node, clock: ctx.clock,
    // Its peers act without a credential, so each start is in the record of changes.
    opened: async (detail) => {
      const change = { who: 'svc.yaml', how: 'direct', what: 'wyoming', bestEffort: true } as const
      await (await audit?.begin({ ...change, detail }))?.({ status: 200, reason: null, detail: {} })
    }
  })
  ctx.effect('Wyoming port', opened.close)
  return { routes: { view: opened.view } }
})
