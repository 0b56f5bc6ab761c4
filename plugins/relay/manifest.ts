import { durableEvent, IdentityService, ListenerService } from '../../kernel/index.js'
import { DevicesService } from '../devices/service.js'
import { meetingSchema, routes } from './routes.js'
import type { Context, Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const

export const manifest = {
  name: 'relay', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Lets paired devices reach nodes from other networks, by a relay that cannot read the traffic.',
  requires: ['devices'],
  consumes: { devices: DevicesService, identity: IdentityService, listeners: ListenerService },
  settings: {
    relay: {
      type: 'object', additionalProperties: false,
      description: 'The relay through which paired devices reach this node from other networks.',
      properties: {
        url: {
          'type': ['string', 'null'], 'default': null, 'minLength': 8, 'maxLength': 500, 'format': 'http-url',
          'pattern': '^https?://[^/?#@\\s]+/?$',
          'x-local': true,
          'description': 'Address of a relay (`svc relay`), such as https://relay.example. Null: no relay.'
        }
      }
    }
  },
  routes,
  sections: {
    relayMeetings: {
      writer: 'node', summary: 'The relay address and keys of the node, signed by the node.',
      value: meetingSchema
    }
  },
  events: {
    RelayConnected: durableEvent('A node connected to its relay, where devices can reach it.', { url: text }),
    RelayLost: durableEvent('A node lost the connection to its relay.', { url: text, reason: text })
  },
  conflicts: {
    relay_unreachable: {
      severity: 'warn',
      meaning: 'The node cannot reach its relay, so devices cannot reach it from other networks.',
      remediation: 'Check that the relay runs (its /healthz) and that relay.url is its address; ' +
        '`svc doctor` shows the response to the node.'
    }
  },
  deviceNews: {
    routes: {
      summary: 'The relay addresses of the cluster.',
      load: async () => ({ default: (await import('./device/known.js')).relaySync })
    }
  },
  status: {
    relay: {
      summary: 'The relay of this node.',
      load: async () => ({ default: (await import('./cli/report.js')).status })
    }
  },
  checks: {
    relay: {
      summary: 'Whether the node is connected to its relay.',
      load: async () => ({ default: (await import('./cli/report.js')).doctor })
    }
  },
  verbs: {
    relay: {
      heading: 'Set it up',
      summary: 'run a relay, which connects devices with nodes that dial out to it; needs no home',
      options: [
        ['--host <address>', 'address to listen on (default: 127.0.0.1)'],
        ['--port <port>', 'port to listen on (default: 52420; 0: any free port)'],
        ['--tls-key <file>', 'PEM file of the key; the relay then serves TLS itself'],
        ['--tls-cert <file>', 'PEM file of the certificate and its chain'],
        ['--behind-proxy', 'the address of a client is the last one in X-Forwarded-For']
      ],
      examples: ['svc relay --host 0.0.0.0 --tls-key relay.key --tls-cert relay.crt'],
      load: () => import('./cli/relay.js')
    },
    'device serve': {
      heading: 'Set it up', summary: 'open a local port to the cluster through the relay, for any client',
      options: [
        ['--port <port>', 'port on 127.0.0.1 (default: 52430; 0: any free port)'],
        ['--device <name>', 'device of this machine to act as (default: the newest)'],
        ['--token', 'require a token even if the device has no authority beyond read and invoke']
      ],
      examples: ['svc device serve', 'svc --url http://127.0.0.1:52430 say "hello"'],
      load: () => import('./cli/serve.js')
    }
  }
} as const satisfies Manifest

export type RelayContext = Context<typeof manifest>
