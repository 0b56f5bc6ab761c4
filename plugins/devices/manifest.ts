import {
  CallerService, closedObject, ClusterService, DeclarationService, durableEvent, IdentityService,
  SessionService, StateService, TokenService, type Context, type ErrorDecl, type EventDecl, type Manifest,
  type VerbDecl
} from '../../kernel/index.js'
import { entrySchema, grantSchema, revocationSchema } from './grants.js'
import { routes } from './routes.js'
import { DevicesService } from './service.js'

const refused = (status: number, message: string, remedy: string, retryable = false): ErrorDecl =>
  ({ status, retryable, message, remedy })

const errors = {
  device_not_found: refused(404, 'There is no such device.', '`svc devices` lists them by id.'),
  device_ended: refused(401, 'The device is no longer valid here.',
    'Pair it again with a new key: `svc pair` on a node, then `svc device pair URL` on the device.'),
  signature_refused: refused(401, 'The signature of the request is not accepted.',
    'Sign again with the node id and the time in details; `svc` does that automatically.'),
  bearer_in_clear: refused(403,
    'The bearer of a device is accepted only over TLS, from this machine or through a relay.',
    'Sign each request, as `svc` does, or enable TLS at the node: `svc config set api.tls self`.'),
  too_many_devices: refused(409, 'There are too many devices.',
    'Revoke some: `svc devices revoke ID`; a revoked one needs less space, until its grant expires.'),
  pairing_closed: refused(409, 'No pairing is open here.',
    'Run `svc pair` on the node\'s host, then try again.'),
  pairing_open: refused(409, 'A pairing is already open.', 'Wait for its end, or close it in the dashboard.'),
  pairing_busy: refused(409, 'Another device is being paired.', 'Try again in a few seconds.', true),
  pairing_failed: refused(403, 'The device was refused.', 'Start again; check that no one intercepts it.')
} as const

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const events = {
  DevicePairingOpened: durableEvent('A node opened the pairing of one device.', { by: text, ends: text }),
  DevicePaired: durableEvent('A device was paired; `by` confirmed its authorities.', {
    deviceId: text, name: text, authorities: texts, viaRelay: texts, expires: text, by: text
  }),
  DeviceRefused: durableEvent('The pairing of a device was refused.', { name: text, by: text }),
  DeviceRevoked: durableEvent('A device was permanently revoked.', { deviceId: text, name: text, by: text })
} as const satisfies Record<string, EventDecl>

const digitsOption = [
  '--digits-stdin', 'read the digits that the other side shows from stdin, instead of asking'
] as const

const choiceOptions = [
  ['--name <name>', 'name of the device (default: its own name)'],
  ['--authorities <name...>', 'its authorities (default: read and invoke)'],
  ['--via-relay <name...>', 'its authorities through a relay (default: of read and invoke, those it has)'],
  ['--expires <when>', 'when it expires: 90d (default), 12h, or a date such as 2027-01-31'],
  ['--max-offline <span>', 'how long a node without its cluster trusts it (default: 24h)']
] as const

const verbs = {
  open: {
    heading: 'Set it up', summary: 'print an address of the page that signs one browser in',
    options: [['--authorities <name...>', 'what it may do (default: all that you may)']],
    examples: ['svc open', 'svc open --authorities read invoke'], load: () => import('./cli/open.js')
  },
  pair: {
    heading: 'Set it up', summary: 'pair one device: compare six digits, then confirm',
    options: [...choiceOptions, digitsOption],
    examples: ['svc pair', 'svc pair --name tablet --authorities read --expires 30d'],
    load: () => import('./cli/pair.js')
  },
  'devices ls': {
    heading: 'Set it up', summary: 'list the paired devices of the cluster', load: () => import('./cli/ls.js')
  },
  'devices show': {
    heading: 'Set it up', summary: 'show a paired device: its authorities, expiry and last use', args: '<id>',
    load: () => import('./cli/show.js')
  },
  'devices revoke': {
    heading: 'Set it up', summary: 'permanently revoke a device; its open requests end within seconds',
    args: '<id>', load: () => import('./cli/revoke.js')
  },
  'device pair': {
    heading: 'Set it up', summary: 'pair this machine as a device with the node at an address', args: '<url>',
    options: [['--name <name>', 'name of the device (default: the name of this machine)'], digitsOption],
    examples: ['svc device pair http://192.168.1.20:52415'],
    load: () => import('./cli/device-pair.js')
  }
} as const satisfies Record<string, VerbDecl>

export const manifest = {
  name: 'devices', version: '1.0.0', kernel: '^1.0.0',
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
      summary: 'The grants of paired devices, each signed by a node, and the revoked devices.',
      value: entrySchema
    },
    deviceUse: {
      writer: 'node', summary: 'The day on which each device last used a node.',
      value: { type: 'string', maxLength: 10 }
    }
  },
  commands: {
    grantDevice: {
      summary: 'Adds the grant of a device to the cluster.',
      args: closedObject({ grant: grantSchema })
    },
    revokeDevice: {
      summary: 'Permanently revokes a device.',
      args: closedObject({ revoked: revocationSchema })
    },
    keepDevices: {
      summary: 'Adds device entries of a node that the cluster lacks.',
      args: closedObject({ entries: { type: 'array', maxItems: 50, items: entrySchema } })
    }
  }
} as const satisfies Manifest

export type DevicesContext = Context<typeof manifest>
