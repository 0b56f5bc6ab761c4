import { durableEvent, IdentityService, ListenerService } from '../../kernel/index.js'
import { DevicesService } from '../devices/service.js'
import { meetingSchema, routes } from './routes.js'
import type { Context, Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const
const asDevice = ['--device <name>', 'as which device of this machine (the newest when left out)'] as const

export const manifest = {
  name: 'relay',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Lets paired devices reach nodes from elsewhere, through a relay that cannot read what they say.',
  requires: ['devices'],
  consumes: { devices: DevicesService, identity: IdentityService, listeners: ListenerService },
  settings: {
    relay: {
      type: 'object',
      additionalProperties: false,
      description: 'Through which server paired devices reach this node from elsewhere.',
      properties: {
        url: {
          'type': ['string', 'null'],
          'default': null,
          'minLength': 8,
          'maxLength': 500,
          'format': 'http-url',
          'pattern': '^https?://[^/?#@\\s]+/?$',
          'x-local': true,
          'description': 'Address of a relay (`svc relay`), as https://relay.example. Null: none is dialled.'
        }
      }
    }
  },
  routes,
  sections: {
    relayMeetings: {
      writer: 'node',
      summary: 'Where paired devices meet the node, and by which keys; signed by the node.',
      value: meetingSchema
    }
  },
  events: {
    RelayConnected: durableEvent('A node is at its relay: paired devices reach it there.', { url: text }),
    RelayLost: durableEvent('A node is cut off from its relay.', { url: text, reason: text })
  },
  conflicts: {
    relay_unreachable: {
      severity: 'warn',
      meaning: 'The node does not reach the relay of its settings, so it is not reached from elsewhere.',
      remediation: 'Look whether the relay runs (its /healthz) and whether relay.url is its address; ' +
        '`svc doctor` says what the node was answered.'
    }
  },
  deviceNews: {
    routes: {
      summary: 'Where the cluster is met from elsewhere.',
      load: async () => ({ default: (await import('./cli/news.js')).relaySync })
    }
  },
  status: {
    relay: {
      summary: 'The relay of the node that is asked.',
      load: async () => ({ default: (await import('./cli/report.js')).status })
    }
  },
  checks: {
    relay: {
      summary: 'Whether the node is at its relay.',
      load: async () => ({ default: (await import('./cli/report.js')).doctor })
    }
  },
  verbs: {
    relay: {
      heading: 'Set it up',
      summary: 'be a relay: bring devices together with nodes that dial out to it; needs no home',
      options: [
        ['--host <address>', 'address to listen at (127.0.0.1 when left out)'],
        ['--port <port>', 'port to listen at (52420 when left out; 0 takes any free one)'],
        ['--tls-key <file>', 'PEM file of the key: the relay then speaks TLS itself'],
        ['--tls-cert <file>', 'PEM file of the certificate and its chain'],
        ['--behind-proxy', 'the address of a client is the last one in X-Forwarded-For'],
        ['--connections <count>', 'connections in all (4096 when left out)'],
        ['--devices <count>', 'devices of one node (64 when left out)'],
        ['--rate <MiB>', 'MiB a second of one node, both ways together (64 when left out)']
      ],
      examples: ['svc relay --host 0.0.0.0 --tls-key relay.key --tls-cert relay.crt'],
      load: () => import('./cli/relay.js')
    },
    'device serve': {
      heading: 'Set it up',
      summary: 'reach the cluster from elsewhere: a port of this machine for every client, through the relay',
      options: [
        ['--port <port>', 'port on 127.0.0.1 (52430 when left out; 0 takes any free one)'],
        asDevice,
        ['--token', 'ask for a token, also where the device may do no more than read and invoke']
      ],
      examples: ['svc device serve', 'svc --url http://127.0.0.1:52430 say "hello"'],
      load: () => import('./cli/serve.js')
    },
    'device run': {
      heading: 'Set it up',
      summary: 'run another verb at the cluster, through the relay',
      args: '<words...>',
      options: [asDevice],
      examples: ['svc device run -- status', 'svc device run -- say "hello" -o hello.mp3'],
      load: () => import('./cli/run.js')
    },
    'device routes': {
      heading: 'Set it up',
      summary: 'ask the node again where this device meets the cluster from elsewhere',
      options: [asDevice],
      examples: ['svc --url http://192.168.1.20:52415 device routes'],
      load: () => import('./cli/routes.js')
    }
  }
} as const satisfies Manifest

export type RelayContext = Context<typeof manifest>
