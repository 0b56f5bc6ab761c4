import { admittedMembers, closedObject, type RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const key = { type: 'string', pattern: '^[A-Za-z0-9_-]{43}$' } as const
const nonce = { type: 'string', pattern: '^[A-Za-z0-9_-]{22}$' } as const
const name = { type: 'string', minLength: 1, maxLength: 60, pattern: '^[^\\p{Cc}\\p{Cf}]+$' } as const
const attempt = { type: 'string', pattern: '^[A-Za-z0-9_-]{22}$' } as const
const deviceId = {
  type: 'string', pattern: '^[a-z2-7]{52}$', description: 'The id in `svc devices`.'
} as const
const authorities = {
  type: 'array', minItems: 0, maxItems: 32, uniqueItems: true,
  items: { type: 'string', minLength: 1, maxLength: 64 }
} as const
const seconds = { type: 'integer', minimum: 60, maximum: 34_560_000 } as const
const list = { type: 'array', items: text } as const
const textOrNull = { type: ['string', 'null'] } as const

/** The route at which a device requests a bearer. */
export const SESSION_PATH = '/v1/devices/session'

const choice = {
  name: { ...name, description: 'Name of the device; its own name when absent.' },
  authorities: { ...authorities, description: 'Its authorities: read and invoke when absent.' },
  viaRelay: {
    ...authorities,
    description: 'Its authorities through a relay: when absent, those of read and invoke that it has.'
  },
  expires: {
    type: 'string', format: 'date-time', maxLength: 40,
    description: 'When it expires: in 90 days when absent, in 400 days at the latest.'
  },
  maxOfflineSeconds: {
    ...seconds,
    description: 'How long a node without its cluster still trusts the grant; 24 hours when absent.'
  }
} as const

const device = closedObject({
  deviceId: text, name: text, authorities: list, viaRelay: list, created: textOrNull, expires: text,
  maxOfflineSeconds: { type: ['integer', 'null'] }, by: text, lastUsedDay: textOrNull,
  state: { enum: ['active', 'expired', 'revoked', 'node_removed', 'unheard'] }
})

const compared = {
  ...closedObject({ attempt: text, deviceId: text, name: text, digits: text }), type: ['object', 'null']
} as const

const pairing = closedObject({
  open: { type: 'boolean' }, ends: textOrNull, triesLeft: { type: 'integer' },
  authorities: { type: ['array', 'null'], items: text }, viaRelay: { type: ['array', 'null'], items: text },
  expires: textOrNull, device: compared
})

const half = closedObject({ key, agreementKey: key, ephemeral: key, nonce })
const one = closedObject({ id: deviceId })
const ofAttempt = closedObject({ attempt })
const ended = closedObject({ id: text, revoked: { const: true }, admitted: admittedMembers })
const nothing = closedObject({})

export const routes = {
  list: {
    method: 'GET', url: '/v1/devices',
    summary: 'Lists the devices of the cluster with their authorities, expiry and day of last use.',
    authority: 'operator',
    reply: closedObject({ devices: { type: 'array', items: device } })
  },
  show: {
    method: 'GET', url: '/v1/devices/:id', summary: 'One device of the cluster.', authority: 'operator',
    params: one, reply: device, errors: ['device_not_found']
  },
  revoke: {
    method: 'DELETE', url: '/v1/devices/:id', summary: 'Permanently revokes a device, at every node.',
    authority: 'operator', params: one, reply: ended, errors: ['device_not_found']
  },
  leave: {
    method: 'DELETE', url: '/v1/devices/self', summary: 'Permanently revokes the calling device.',
    authority: null, audit: true, reply: ended, errors: ['device_not_found']
  },
  self: {
    method: 'GET', url: '/v1/devices/self',
    summary: 'The authorities of the calling device, and the nodes of its cluster.', authority: null,
    reply: { type: 'object' }, errors: ['device_not_found']
  },
  session: {
    method: 'POST', url: SESSION_PATH,
    summary: 'Returns a bearer token for this node, valid for 10 minutes; a device must sign the request.',
    authority: null, body: nothing,
    reply: closedObject({ token: text, expiresInSeconds: { type: 'integer' }, nodeId: text }),
    errors: ['bearer_in_clear', 'device_not_found', 'unauthenticated']
  },
  open: {
    method: 'POST', url: '/v1/devices/pairing',
    summary: 'Opens the pairing of one device at this node for 120 seconds.', authority: 'operator',
    body: closedObject(choice, []), reply: pairing,
    errors: ['pairing_open', 'missing_grant', 'invalid_request']
  },
  view: {
    method: 'GET', url: '/v1/devices/pairing',
    summary: 'The open pairing, and the device whose six digits are to be compared.', authority: 'operator',
    reply: pairing
  },
  close: {
    method: 'DELETE', url: '/v1/devices/pairing',
    summary: 'Closes the open pairing and refuses a waiting device.', authority: 'operator', reply: pairing
  },
  confirm: {
    method: 'POST', url: '/v1/devices/pairing/confirm',
    summary: 'The digits are the same on both sides: grants the device access to the whole cluster, ' +
      'once the device has confirmed them, too.',
    authority: 'operator',
    body: closedObject({
      attempt, digits: { type: 'string', pattern: '^\\d{6}$', description: 'The compared digits.' },
      ...choice
    }, ['attempt', 'digits']),
    reply: device,
    // The request waits until the device confirms the digits or the window closes.
    deadlineMs: 150_000,
    errors: [
      'pairing_closed', 'pairing_busy', 'pairing_failed', 'too_many_devices', 'device_ended', 'missing_grant'
    ]
  },
  refuse: {
    method: 'POST', url: '/v1/devices/pairing/refuse',
    summary: 'The digits differ: refuses the device; another one may try.', authority: 'operator',
    body: { ...ofAttempt }, reply: pairing, errors: ['pairing_closed']
  },
  signIn: {
    method: 'POST', url: '/v1/devices/sign-in',
    summary: 'Returns a code that signs one browser in at this node within 60 seconds, as a device or with ' +
      'a token; `url` is the node\'s address for other machines.',
    authority: 'operator',
    body: closedObject({
      authorities: { ...authorities, minItems: 1, description: 'Those of the caller when absent.' }
    }, []),
    reply: closedObject({ code: text, ends: text, url: textOrNull }),
    errors: ['missing_grant', 'invalid_request']
  },
  signInToken: {
    method: 'POST', url: '/v1/devices/sign-in/token',
    summary: 'Exchanges a sign-in code for a token of 12 hours, for a browser that keeps no keys.',
    authority: null, audit: true,
    body: closedObject({ code: attempt }),
    reply: closedObject({ token: text, expires: text }),
    errors: ['pairing_closed', 'pairing_failed']
  },
  begin: {
    method: 'POST', url: '/v1/devices/pair',
    summary: 'A device starts the pairing: it commits to its keys and gets those of the node.',
    authority: null,
    body: closedObject({
      commit: { ...key, description: 'SHA-256 of the data that it will reveal.' },
      code: { ...attempt, description: 'A sign-in code, in place of the comparison of digits.' }
    }, ['commit']),
    reply: closedObject({ attempt: text, node: half, nodeId: text, name: text }),
    errors: ['pairing_closed', 'pairing_busy', 'pairing_failed']
  },
  reveal: {
    method: 'POST', url: '/v1/devices/pair/:attempt',
    summary: 'The device reveals its keys and its name; both sides can then show the six digits.',
    authority: null, params: ofAttempt,
    body: closedObject({
      key, agreementKey: key, ephemeral: key, nonce, name,
      proof: {
        type: 'string', pattern: '^[A-Za-z0-9_-]{86}$',
        description: 'Proof that the device has the private key.'
      }
    }),
    reply: closedObject({ signature: text }),
    errors: ['pairing_closed', 'pairing_failed']
  },
  withdraw: {
    method: 'POST', url: '/v1/devices/pair/:attempt/refuse',
    summary: 'The device reports that the digits differ: its attempt ends without a grant.', authority: null,
    params: ofAttempt, body: nothing, reply: nothing, errors: ['pairing_closed']
  },
  outcome: {
    method: 'GET', url: '/v1/devices/pair/:attempt',
    summary: 'Whether the operator has confirmed; the device asks after it has confirmed the digits. ' +
      'Keys from the pairing authenticate the answer.',
    authority: null,
    params: ofAttempt,
    reply: closedObject({
      state: { enum: ['waiting', 'paired', 'refused'] }, answer: textOrNull, mac: textOrNull
    }),
    errors: ['pairing_closed']
  }
} as const satisfies Record<string, RouteDecl>
