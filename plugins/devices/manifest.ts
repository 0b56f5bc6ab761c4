import {
  CallerService, ClusterService, DeclarationService, durableEvent, IdentityService, SessionService,
  StateService, TokenService
} from '../../kernel/index.js'
import { entrySchema, grantSchema, revocationSchema } from './grants.js'
import { routes } from './routes.js'
import { DevicesService } from './service.js'
import type { Context, ErrorDecl, EventDecl, Manifest, VerbDecl } from '../../kernel/index.js'

const refused = (status: number, message: string, remedy: string, retryable = false): ErrorDecl =>
  ({ status, retryable, message, remedy })

const errors = {
  device_not_found: refused(404, 'There is no such device.', '`svc devices` lists them by id.'),
  device_ended: refused(401, 'The device does not count here any more.',
    'Pair it anew with a fresh key: `svc pair` on a node, then `svc device pair URL` on the device.'),
  signature_refused: refused(401, 'The signature of the request is refused.',
    'Sign once more for the node id and the time in details; `svc` does that by itself.'),
  bearer_in_clear: refused(403,
    'The bearer of a device counts over TLS, from this machine or through a relay, and nowhere else.',
    'Sign each request, as `svc` does, or switch TLS on at the node: `svc config set api.tls self`.'),
  too_many_devices: refused(409, 'Too many devices are kept.',
    'Revoke some: `svc devices revoke ID`; a revoked one takes less, until its grant would have ended.'),
  pairing_closed: refused(409, 'No pairing is open here.',
    'Run `svc pair` on the node\'s host, then try again.'),
  pairing_open: refused(409, 'A pairing is open already.', 'Wait until it ends, or close it in the page.'),
  pairing_busy: refused(409, 'Another device is being paired just now.', 'Try again in some seconds.', true),
  pairing_failed: refused(403, 'The device was refused.', 'Begin anew; look whether somebody sits between.')
} as const

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const events = {
  DevicePairingOpened: durableEvent('A node lets one device be paired.', { by: text, ends: text }),
  DevicePaired: durableEvent('A device was paired; `by` confirmed what it may do.', {
    deviceId: text, name: text, authorities: texts, viaRelay: texts, expires: text, by: text
  }),
  DeviceRefused: durableEvent('A device that wanted to be paired was refused.', { name: text, by: text }),
  DeviceRevoked: durableEvent('A device was revoked for good.', { deviceId: text, name: text, by: text })
} as const satisfies Record<string, EventDecl>

/** Lets a script compare. */
const digitsOption = [
  '--digits-stdin', 'reads the digits that the other side shows from stdin, in place of the question'
] as const

const choiceOptions = [
  ['--name <name>', 'what the device is called; what it calls itself when left out'],
  ['--authorities <name...>', 'what it may do (read and invoke when left out)'],
  ['--via-relay <name...>', 'what of that it may do through a relay (of read and invoke what it may do)'],
  ['--expires <when>', 'when it ends: 90d (when left out), 12h, or a date such as 2027-01-31'],
  ['--max-offline <span>', 'how long a node cut off from its cluster believes it (24h when left out)']
] as const

const verbs = {
  pair: {
    heading: 'Set it up',
    summary: 'let one device be paired: compare six digits, then confirm',
    options: [...choiceOptions, digitsOption],
    examples: ['svc pair', 'svc pair --name tablet --authorities read --expires 30d'],
    load: () => import('./cli/pair.js')
  },
  'devices ls': {
    heading: 'Set it up',
    summary: 'list the paired devices of the cluster',
    load: () => import('./cli/ls.js')
  },
  'devices show': {
    heading: 'Set it up',
    summary: 'one paired device: what it may do, by when, its last use',
    args: '<id>',
    load: () => import('./cli/show.js')
  },
  'devices revoke': {
    heading: 'Set it up',
    summary: 'revoke a device for good; what it has open ends within seconds',
    args: '<id>',
    load: () => import('./cli/revoke.js')
  },
  'device pair': {
    heading: 'Set it up',
    summary: 'make this machine a device of the node at an address',
    args: '<url>',
    options: [
      ['--name <name>', 'what the device is called (the name of this machine when left out)'], digitsOption
    ],
    examples: ['svc device pair http://192.168.1.20:52415'],
    load: () => import('./cli/device-pair.js')
  }
} as const satisfies Record<string, VerbDecl>

export const manifest = {
  name: 'devices',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Pairs other machines as devices of the cluster, and revokes them.',
  consumes: {
    callers: CallerService, cluster: ClusterService, declarations: DeclarationService,
    identity: IdentityService, session: SessionService, state: StateService, tokens: TokenService
  },
  provides: { devices: DevicesService },
  routes, errors, events, verbs,
  credentials: {
    device: {
      summary: 'Signs the requests of a machine that is a paired device.',
      load: () => import('./device-sync.js')
    }
  },
  sections: {
    devices: {
      writer: 'master',
      summary: 'The grants of paired devices, each signed by a node, and the devices that were revoked.',
      value: entrySchema
    },
    deviceUse: {
      writer: 'node',
      summary: 'The day on which each device last used a node.',
      value: { type: 'string', maxLength: 10 }
    }
  },
  commands: {
    grantDevice: {
      summary: 'Takes the grant of a device into the cluster.',
      args: {
        type: 'object', additionalProperties: false, required: ['grant'], properties: { grant: grantSchema }
      },
      result: { type: 'object' }
    },
    revokeDevice: {
      summary: 'Revokes a device for good.',
      args: {
        type: 'object', additionalProperties: false, required: ['revoked'],
        properties: { revoked: revocationSchema }
      },
      result: { type: 'object' }
    },
    keepDevices: {
      summary: 'Takes over what a node knows of devices and the cluster does not.',
      args: {
        type: 'object', additionalProperties: false, required: ['entries'],
        properties: { entries: { type: 'array', maxItems: 50, items: entrySchema } }
      },
      result: { type: 'object' }
    }
  }
} as const satisfies Manifest

/** The plugin's context. */
export type DevicesContext = Context<typeof manifest>
