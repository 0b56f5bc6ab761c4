import type { FromSchema, JsonSchema } from '../api/schema.js'
import { getIn } from './paths.js'
import type { Path } from './paths.js'

const whole = <D extends number> (description: string, value: D, minimum: number, maximum: number): {
  type: 'integer', description: string, default: D, minimum: number, maximum: number
} => ({ type: 'integer', description, default: value, minimum, maximum })

const list = (description: string, format: string, remote: string): {
  'type': 'array'
  'description': string
  'items': { type: 'string', format: string }
  'uniqueItems': true
  'default': never[]
  'x-remote': string
} => ({
  'type': 'array', description, 'items': { type: 'string', format }, 'uniqueItems': true, 'default': [],
  'x-remote': remote
})

const pemFile = {
  'type': 'string', 'minLength': 1, 'maxLength': 4096, 'x-expected': 'a path', 'x-local': true
} as const

const api = {
  type: 'object',
  description: 'The HTTP API of this node.',
  additionalProperties: false,
  default: {},
  properties: {
    host: {
      'type': 'string',
      'format': 'host',
      'default': '127.0.0.1',
      'x-remote': 'is asked of this machine only, and a request from elsewhere needs a credential',
      'description': 'Address to listen on; 0.0.0.0 or :: for every address of the machine.'
    },
    port: whole('Port to listen on; 0 takes any free one.', 52415, 0, 65535),
    allowed_hosts: list('Further names under which clients may address this node (Host header).', 'host',
      'names this node itself, which asks nothing there'),
    allowed_origins: list('Web pages that may call this node beside the members\', as ' +
      'scheme://host[:port]; also extensions and apps, such as chrome-extension://id.', 'origin',
    'is compared with what a page says of itself, and is not asked'),
    trust_proxy: list('Addresses of proxies whose X-Forwarded-For is believed.', 'cidr',
      'is compared with where a request comes from, and is not asked'),
    tls: {
      type: 'string',
      enum: ['off', 'self', 'files'],
      default: 'off',
      description: 'How clients are spoken to. off: plain HTTP. self: TLS with a key and an authority of ' +
        'this node\'s own. files: TLS with the files that tls_cert and tls_key name.'
    },
    tls_cert: {
      ...pemFile,
      examples: ['/etc/letsencrypt/live/attic.example.net/fullchain.pem'],
      description: 'File of the certificates in PEM, the server\'s own first; relative to svc.yaml. It is ' +
        'read again when it changes.'
    },
    tls_key: {
      ...pemFile,
      examples: ['/etc/letsencrypt/live/attic.example.net/privkey.pem'],
      description: 'File of the private key of the first certificate, in PEM and without a passphrase.'
    }
  }
} as const

const access = {
  type: 'object',
  description: 'What a request may do without a token.',
  additionalProperties: false,
  default: {},
  properties: {
    local: {
      type: 'array',
      items: { type: 'string' },
      uniqueItems: true,
      default: ['read', 'invoke'],
      description: 'Authorities of a request that comes from this machine without a token.'
    },
    remote: {
      type: 'array',
      items: { type: 'string' },
      default: [],
      description: 'Must stay empty: a request from elsewhere always needs a token.'
    }
  }
} as const

const limits = {
  type: 'object',
  description: 'Limits of the HTTP API.',
  additionalProperties: false,
  default: {},
  properties: {
    connections: whole('Open connections in all.', 1024, 1, 65536),
    connections_per_address: whole('Open connections of one remote address without a token.', 64, 1, 65536),
    streams_per_token: whole('Open streams of one token.', 256, 1, 65536),
    headers_timeout_seconds: whole('Time in which the headers of a request must arrive.', 10, 1, 600),
    request_timeout_seconds: whole('Time in which a whole request must arrive.', 30, 1, 3600),
    keep_alive_seconds: whole('Time an idle connection stays open.', 15, 1, 600),
    handler_timeout_seconds: whole('Time an answer that is no stream may take.', 60, 1, 3600),
    body_kib: whole('Largest request body in KiB, where a route does not say otherwise.', 256, 1, 65536),
    calls_at_once: whole('Calls of one capability that run at the same time.', 8, 1, 1024),
    calls_queued: whole('Calls of one capability that may wait for their turn.', 32, 0, 65536),
    stream_buffer_kib: whole('KiB kept for a stream whose reader is slow.', 1024, 16, 1048576),
    stream_stall_seconds: whole('Time a stream waits for a reader that takes nothing.', 30, 1, 3600),
    media_buffer_kib: whole('KiB of encoded sound kept for one player.', 8192, 16, 1048576),
    media_stall_seconds: whole('Time a sound stream waits for a player that takes nothing.', 900, 1, 86400)
  }
} as const

const logging = {
  type: 'object',
  description: 'Logs. People read them on stderr.',
  additionalProperties: false,
  default: {},
  properties: {
    enabled: { type: 'boolean', default: false, description: 'Writes the log to stdout as JSON lines too.' },
    level: {
      type: 'string',
      enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
      default: 'info',
      description: 'Lowest level that is logged.'
    },
    ingest_url: {
      'type': 'string',
      'format': 'http-url',
      'x-secret': true,
      'x-local': true,
      'examples': ['https://logs.example.net/ingest'],
      'description': 'Where log lines are sent as well.'
    }
  }
} as const

const cluster = {
  type: 'object',
  description: 'The other nodes: how they are found, and how many must agree.',
  additionalProperties: false,
  default: {},
  properties: {
    host: {
      'type': 'string',
      'format': 'host',
      'examples': ['192.168.1.20'],
      'x-remote': 'is asked of this machine only, and members show their keys there',
      'description': 'Address on which members are listened for. When absent, that of the API; is that ' +
        'loopback, every address (0.0.0.0) once another machine is to join or has joined.'
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      examples: [52416],
      description: 'Port on which members are listened for; the API\'s port + 1 when absent.'
    },
    advertise: {
      'type': 'string',
      'format': 'host-port',
      'examples': ['attic.lan:52416'],
      'x-remote': 'is dialled by members, which check the key of who answers',
      'description': 'Where other nodes reach the members\' listener, when that is not where it is bound.'
    },
    peers: list('Further addresses (host:port) at which to look for members.', 'host-port',
      'is sent nothing before the key of who answers is that of a member'),
    quorum: {
      type: ['integer', 'string'],
      minimum: 1,
      maximum: 99,
      pattern: '^majority$',
      default: 1,
      'x-expected': '1, majority, or a number above half of the members',
      description: '1: every part of the cluster goes on by itself. majority: only the larger part ' +
        'decides, and nothing it acknowledged is lost.'
    },
    discovery: {
      type: 'boolean',
      default: true,
      description: 'Looks for members on the local network (mDNS).'
    },
    heartbeat_ms: whole('Time between two signs of life; a node is missed after three.', 2000, 100, 60000),
    election_timeout_ms: whole('Longest time in which votes for a master are collected.', 3000, 150, 60000)
  }
} as const

export const kernelKeys = {
  name: {
    type: 'string',
    minLength: 1,
    maxLength: 64,
    pattern: '^[^\\p{Cc}]+$',
    'x-expected': 'text of 1 to 64 characters on one line',
    examples: ['attic'],
    description: 'Name of this node for people. The host name when absent.'
  },
  api,
  cluster,
  access,
  limits,
  logging
} as const satisfies Record<string, JsonSchema>

export type KernelConfig = FromSchema<{ type: 'object', properties: typeof kernelKeys }, true>

/** A check that looks at more than one value, or needs more words than a schema has. */
export interface Rule {
  readonly path: Path
  /** Returns what is wrong, or null. `config` may have failed its schema: then it says null. */
  readonly check: (config: unknown) => string | null
}

/** The kernel's rules beyond its schemas. */
export const kernelRules: readonly Rule[] = [
  {
    path: ['access', 'remote'],
    check: (config) => {
      const granted = getIn(config, ['access', 'remote'])
      return Array.isArray(granted) && granted.length > 0
        ? 'nothing is granted to a remote request without a credential; see `svc token create`'
        : null
    }
  },
  ...(['tls_cert', 'tls_key'] as const).map((key): Rule => ({
    path: ['api', key],
    check: (config) => {
      // The other way round it may be there: so TLS can be switched off for a while.
      const used = getIn(config, ['api', 'tls']) === 'files'
      const missing = getIn(config, ['api', key]) === undefined
      return used && missing ? 'is missing; api.tls: files needs it' : null
    }
  })),
  {
    path: ['limits', 'headers_timeout_seconds'],
    check: (config) => {
      const headers = Number(getIn(config, ['limits', 'headers_timeout_seconds']))
      const request = Number(getIn(config, ['limits', 'request_timeout_seconds']))
      return headers > request ? `is above limits.request_timeout_seconds: ${headers} > ${request}` : null
    }
  }
]
