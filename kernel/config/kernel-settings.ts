import type { FromSchema, JsonSchema } from '../api/schema.js'
import { getIn, type Path } from './paths.js'

const whole = <D extends number>(description: string, value: D, minimum: number, maximum: number) =>
  ({ type: 'integer', description, default: value, minimum, maximum }) as const

const list = (description: string, format: string, remote: string) => ({
  'type': 'array', description, 'items': { type: 'string', format }, 'uniqueItems': true, 'default': [],
  'x-remote': remote
}) as const

const section = <const P extends Record<string, JsonSchema>>(description: string, properties: P) =>
  ({ type: 'object', description, additionalProperties: false, default: {}, properties }) as const

const pemFile = {
  'type': 'string', 'minLength': 1, 'maxLength': 4096, 'x-expected': 'a path', 'x-local': true
} as const

const api = section('The HTTP API of this node.', {
  host: {
    'type': 'string', 'format': 'host', 'default': '127.0.0.1',
    'x-remote': 'is used on this machine only, and a request from elsewhere needs a credential',
    'description': 'Address to listen on; 0.0.0.0 or :: for every address of the machine.'
  },
  port: whole('Port to listen on; 0 takes any free one.', 52415, 0, 65535),
  allowed_hosts: list('Additional names by which clients may address this node (Host header).', 'host',
    'is a name of this node itself, which sends no request there'),
  allowed_origins: list('Web pages that may call this node besides the members\', as ' +
    'scheme://host[:port]; also extensions and apps, such as chrome-extension://id.', 'origin',
  'is compared with the Origin header of a page, and receives no request'),
  trust_proxy: list('Addresses of proxies whose X-Forwarded-For header is trusted.', 'cidr',
    'is compared with the source address of requests, and receives no request'),
  tls: {
    type: 'string', enum: ['off', 'self', 'files'], default: 'off',
    description: 'TLS of the API. off: plain HTTP. self: TLS with a key and a certificate authority ' +
      'that this node creates. files: TLS with the files in tls_cert and tls_key.'
  },
  tls_cert: {
    ...pemFile, examples: ['/etc/letsencrypt/live/attic.example.net/fullchain.pem'],
    description: 'Certificate file in PEM, the server\'s own certificate first; relative to svc.yaml. ' +
      'The node reloads it when it changes.'
  },
  tls_key: {
    ...pemFile, examples: ['/etc/letsencrypt/live/attic.example.net/privkey.pem'],
    description: 'Private key file of the first certificate, in PEM and without a passphrase.'
  }
})

const access = section('What a request may do without a token.', {
  local: {
    type: 'array', items: { type: 'string' }, uniqueItems: true, default: ['read', 'invoke'],
    description: 'Authorities of a request from this machine without a token.'
  },
  remote: {
    type: 'array', items: { type: 'string' }, default: [],
    description: 'Must stay empty: a request from elsewhere always needs a token.'
  }
})

const limits = section('Limits of the HTTP API.', {
  connections: whole('Open connections in total.', 1024, 1, 65536),
  connections_per_address: whole('Open connections of one remote address without a token.', 64, 1, 65536),
  streams_per_token: whole('Open streams of one token.', 256, 1, 65536),
  headers_timeout_seconds: whole('Time limit for the headers of a request.', 10, 1, 600),
  request_timeout_seconds: whole('Time limit for a complete request to arrive.', 30, 1, 3600),
  keep_alive_seconds: whole('How long an idle connection stays open.', 15, 1, 600),
  handler_timeout_seconds: whole('Time limit for an answer that is not a stream.', 60, 1, 3600),
  body_kib: whole('Largest request body in KiB, unless a route has its own limit.', 256, 1, 65536),
  calls_at_once: whole('Concurrent calls of one capability.', 8, 1, 1024),
  calls_queued: whole('Queued calls of one capability.', 32, 0, 65536),
  stream_buffer_kib: whole('KiB buffered for a stream with a slow client.', 1024, 16, 1048576),
  stream_stall_seconds: whole('How long a stream waits for a client that does not read.', 30, 1, 3600),
  media_buffer_kib: whole('KiB of encoded audio buffered for one player.', 8192, 16, 1048576),
  media_stall_seconds: whole('How long audio waits for a player that does not read.', 900, 1, 86400)
})

const logging = section('Logs. The readable log is on stderr.', {
  enabled: { type: 'boolean', default: false, description: 'Also writes the log to stdout as JSON lines.' },
  level: {
    type: 'string', enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'], default: 'info',
    description: 'Lowest level in the log.'
  },
  ingest_url: {
    'type': 'string', 'format': 'http-url', 'x-secret': true, 'x-local': true,
    'examples': ['https://logs.example.net/ingest'],
    'description': 'URL to which log lines are also sent.'
  }
})

const cluster = section('The other nodes: how to find them, and how many must agree.', {
  host: {
    'type': 'string', 'format': 'host', 'examples': ['192.168.1.20'],
    'x-remote': 'is used on this machine only, and members authenticate with their keys there',
    'description': 'Address to listen on for members. When absent, that of the API; if that is ' +
      'loopback, every address (0.0.0.0) as soon as another machine is to join or has joined.'
  },
  port: {
    type: 'integer', minimum: 0, maximum: 65535, examples: [52416],
    description: 'Port to listen on for members; the API\'s port + 1 when absent.'
  },
  advertise: {
    'type': 'string', 'format': 'host-port', 'examples': ['attic.lan:52416'],
    'x-remote': 'is dialled by members, which check the key of the server',
    'description': 'Address at which other nodes reach this node\'s listener for members, if it differs ' +
      'from the bound one.'
  },
  peers: list('Additional addresses (host:port) of members.', 'host-port',
    'receives no data before the server has proved the key of a member'),
  quorum: {
    type: ['integer', 'string'], minimum: 1, maximum: 99, pattern: '^majority$', default: 1,
    'x-expected': '1, majority, or a number above half of the members',
    description: '1: after a split, every part of the cluster continues by itself. majority: only the ' +
      'larger part decides, and no acknowledged decision is lost.'
  },
  discovery: {
    type: 'boolean', default: true, description: 'Searches the local network for members (mDNS).'
  },
  heartbeat_ms: whole('Time between heartbeats; a node is lost after three missed ones.', 2000, 100, 60000),
  election_timeout_ms: whole('Longest time to collect votes for a master.', 3000, 150, 60000)
})

export const kernelKeys = {
  name: {
    type: 'string', minLength: 1, maxLength: 64, pattern: '^[^\\p{Cc}]+$',
    'x-expected': 'text of 1 to 64 characters on one line', examples: ['attic'],
    description: 'Display name of this node. The host name when absent.'
  },
  api, cluster, access, limits, logging
} as const satisfies Record<string, JsonSchema>

export type KernelConfig = FromSchema<{ type: 'object', properties: typeof kernelKeys }, true>

/** A check that spans several values or that no schema can express. */
export interface Rule {
  readonly path: Path
  /** Returns the problem or null; null also for a `config` that fails schema validation. */
  readonly check: (config: unknown) => string | null
}

/** The kernel's checks in addition to its schemas. */
export const kernelRules: readonly Rule[] = [
  {
    path: ['access', 'remote'],
    check: (config) => {
      const granted = getIn(config, ['access', 'remote'])
      return Array.isArray(granted) && granted.length > 0
        ? 'a remote request without a credential gets no authority; see `svc token create`'
        : null
    }
  },
  ...(['tls_cert', 'tls_key'] as const).map((key): Rule => ({
    path: ['api', key],
    check: (config) => {
      // The files may be set while TLS is in another mode, so that TLS can be switched off temporarily.
      const used = getIn(config, ['api', 'tls']) === 'files'
      const missing = getIn(config, ['api', key]) === undefined
      return used && missing ? 'is missing, but api.tls: files needs it' : null
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
