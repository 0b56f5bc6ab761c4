import { admittedMembers } from '../../kernel/index.js'
import type { RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const key = { type: 'string', pattern: '^[A-Za-z0-9_-]{43}$' } as const
const nonce = { type: 'string', pattern: '^[A-Za-z0-9_-]{22}$' } as const
const name = { type: 'string', minLength: 1, maxLength: 60, pattern: '^[^\\p{Cc}\\p{Cf}]+$' } as const
const attempt = { type: 'string', pattern: '^[A-Za-z0-9_-]{22}$' } as const
const deviceId = {
  type: 'string', pattern: '^[a-z2-7]{52}$', description: 'As `svc devices` lists it.'
} as const
const authorities = {
  type: 'array', minItems: 0, maxItems: 32, uniqueItems: true,
  items: { type: 'string', minLength: 1, maxLength: 64 }
} as const
const seconds = { type: 'integer', minimum: 60, maximum: 34_560_000 } as const
const list = { type: 'array', items: text } as const
const textOrNull = { type: ['string', 'null'] } as const

/** Path of the route at which a device signs for a bearer. */
export const SESSION_PATH = '/v1/devices/session'

/** The operator's choices for a device. */
const choice = {
  name: { ...name, description: 'What the device is called; what it calls itself when absent.' },
  authorities: { ...authorities, description: 'What it may do: read and invoke when absent.' },
  viaRelay: {
    ...authorities,
    description: 'What is left of that through a relay: of read and invoke what it may do, when absent.'
  },
  expires: {
    type: 'string', format: 'date-time', maxLength: 40,
    description: 'When it ends: in 90 days when absent, in 400 days at the latest.'
  },
  maxOfflineSeconds: {
    ...seconds,
    description: 'How long a node that has lost its cluster still believes the grant, 24 hours when absent.'
  }
} as const

const device = {
  type: 'object',
  additionalProperties: false,
  required: [
    'deviceId', 'name', 'authorities', 'viaRelay', 'created', 'expires', 'maxOfflineSeconds', 'by',
    'lastUsedDay', 'state'
  ],
  properties: {
    deviceId: text, name: text, authorities: list, viaRelay: list, created: textOrNull, expires: text,
    maxOfflineSeconds: { type: ['integer', 'null'] }, by: text, lastUsedDay: textOrNull,
    state: { enum: ['active', 'expired', 'revoked', 'node_removed', 'unheard'] }
  }
} as const

const compared = {
  type: ['object', 'null'],
  additionalProperties: false,
  required: ['attempt', 'deviceId', 'name', 'digits'],
  properties: { attempt: text, deviceId: text, name: text, digits: text }
} as const

const pairing = {
  type: 'object',
  additionalProperties: false,
  required: ['open', 'ends', 'triesLeft', 'authorities', 'viaRelay', 'expires', 'device'],
  properties: {
    open: { type: 'boolean' }, ends: textOrNull, triesLeft: { type: 'integer' },
    authorities: { type: ['array', 'null'], items: text }, viaRelay: { type: ['array', 'null'], items: text },
    expires: textOrNull, device: compared
  }
} as const

const half = {
  type: 'object',
  additionalProperties: false,
  required: ['key', 'agreementKey', 'ephemeral', 'nonce'],
  properties: { key, agreementKey: key, ephemeral: key, nonce }
} as const

const one = {
  type: 'object', additionalProperties: false, required: ['id'], properties: { id: deviceId }
} as const
const ofAttempt = {
  type: 'object', additionalProperties: false, required: ['attempt'], properties: { attempt }
} as const
const ended = {
  type: 'object', additionalProperties: false, required: ['id', 'revoked', 'admitted'],
  properties: { id: text, revoked: { const: true }, admitted: admittedMembers }
} as const
const nothing = { type: 'object', additionalProperties: false, properties: {} } as const

export const routes = {
  list: {
    method: 'GET',
    url: '/v1/devices',
    summary: 'Lists the devices of the cluster: what each may do, by when, and the day it was last used.',
    authority: 'operator',
    reply: {
      type: 'object', additionalProperties: false, required: ['devices'],
      properties: { devices: { type: 'array', items: device } }
    }
  },
  show: {
    method: 'GET',
    url: '/v1/devices/:id',
    summary: 'One device of the cluster.',
    authority: 'operator',
    params: one,
    reply: device,
    errors: ['device_not_found']
  },
  revoke: {
    method: 'DELETE',
    url: '/v1/devices/:id',
    summary: 'Revokes a device for good, at every node.',
    authority: 'operator',
    params: one,
    reply: ended,
    errors: ['device_not_found']
  },
  leave: {
    method: 'DELETE',
    url: '/v1/devices/self',
    summary: 'The device that asks is revoked for good.',
    authority: null,
    audit: true,
    reply: ended,
    errors: ['device_not_found']
  },
  self: {
    method: 'GET',
    url: '/v1/devices/self',
    summary: 'What the device that asks may do, and which nodes its cluster has.',
    authority: null,
    reply: { type: 'object' },
    errors: ['device_not_found']
  },
  session: {
    method: 'POST',
    url: SESSION_PATH,
    summary: 'Gives a device that signs this request a bearer token for this node, good for 10 minutes.',
    authority: null,
    body: nothing,
    reply: {
      type: 'object', additionalProperties: false, required: ['token', 'expiresInSeconds', 'nodeId'],
      properties: { token: text, expiresInSeconds: { type: 'integer' }, nodeId: text }
    },
    errors: ['bearer_in_clear', 'device_not_found', 'unauthenticated']
  },
  open: {
    method: 'POST',
    url: '/v1/devices/pairing',
    summary: 'Lets one device be paired at this node within the next 120 seconds.',
    authority: 'operator',
    body: { type: 'object', additionalProperties: false, properties: choice },
    reply: pairing,
    errors: ['pairing_open', 'missing_grant', 'invalid_request']
  },
  view: {
    method: 'GET',
    url: '/v1/devices/pairing',
    summary: 'The open pairing, and the device whose six digits are to be compared.',
    authority: 'operator',
    reply: pairing
  },
  close: {
    method: 'DELETE',
    url: '/v1/devices/pairing',
    summary: 'Closes the open pairing; a device that waits in it is refused.',
    authority: 'operator',
    reply: pairing
  },
  confirm: {
    method: 'POST',
    url: '/v1/devices/pairing/confirm',
    summary: 'The digits are the same on both sides: gives the device its grant, in the whole cluster, ' +
      'once the device says so, too.',
    authority: 'operator',
    body: {
      type: 'object', additionalProperties: false, required: ['attempt', 'digits'],
      properties: {
        attempt,
        digits: { type: 'string', pattern: '^\\d{6}$', description: 'Those that were compared.' },
        ...choice
      }
    },
    reply: device,
    // It waits for the device's yes, as long as the window is open.
    deadlineMs: 150_000,
    errors: [
      'pairing_closed', 'pairing_busy', 'pairing_failed', 'too_many_devices', 'device_ended', 'missing_grant'
    ]
  },
  refuse: {
    method: 'POST',
    url: '/v1/devices/pairing/refuse',
    summary: 'The digits differ: refuses the device; another one may try.',
    authority: 'operator',
    body: { ...ofAttempt },
    reply: pairing,
    errors: ['pairing_closed']
  },
  begin: {
    method: 'POST',
    url: '/v1/devices/pair',
    summary: 'A device begins to be paired: it commits itself to its keys and gets those of the node.',
    authority: null,
    body: {
      type: 'object', additionalProperties: false, required: ['commit'],
      properties: { commit: { ...key, description: 'SHA-256 of what it will show.' } }
    },
    reply: {
      type: 'object', additionalProperties: false, required: ['attempt', 'node', 'nodeId', 'name'],
      properties: { attempt: text, node: half, nodeId: text, name: text }
    },
    errors: ['pairing_closed', 'pairing_busy', 'pairing_failed']
  },
  reveal: {
    method: 'POST',
    url: '/v1/devices/pair/:attempt',
    summary: 'The device shows its keys and its name; both sides can then show the six digits.',
    authority: null,
    params: ofAttempt,
    body: {
      type: 'object', additionalProperties: false,
      required: ['key', 'agreementKey', 'ephemeral', 'nonce', 'name', 'proof'],
      properties: {
        key, agreementKey: key, ephemeral: key, nonce, name,
        proof: { type: 'string', pattern: '^[A-Za-z0-9_-]{86}$', description: 'That the key is its own.' }
      }
    },
    reply: {
      type: 'object', additionalProperties: false, required: ['signature'], properties: { signature: text }
    },
    errors: ['pairing_closed', 'pairing_failed']
  },
  withdraw: {
    method: 'POST',
    url: '/v1/devices/pair/:attempt/refuse',
    summary: 'The device says that the digits differ: its attempt ends, and nothing is granted.',
    authority: null,
    params: ofAttempt,
    body: nothing,
    reply: nothing,
    errors: ['pairing_closed']
  },
  outcome: {
    method: 'GET',
    url: '/v1/devices/pair/:attempt',
    summary: 'Whether the operator has confirmed, asked once the device said yes to the digits; the answer ' +
      'is guarded by the pairing itself.',
    authority: null,
    params: ofAttempt,
    reply: {
      type: 'object', additionalProperties: false, required: ['state', 'answer', 'mac'],
      properties: { state: { enum: ['waiting', 'paired', 'refused'] }, answer: textOrNull, mac: textOrNull }
    },
    errors: ['pairing_closed']
  }
} as const satisfies Record<string, RouteDecl>
