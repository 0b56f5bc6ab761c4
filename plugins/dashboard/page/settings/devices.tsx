// The paired devices of the cluster, this browser among them: let in, looked at, revoked.
import { useState } from 'preact/hooks'
import { ApiError } from '../api.js'
import { device } from '../device/own.js'
import { ask, caller, origin } from '../link.js'
import { Badge, Button, Confirm, Copy, Empty, Trouble, useLoaded } from '../ui/parts.js'
import { ended } from '../ui/toast.js'
import { OwnDevice } from './own-device.js'
import { PairingDialog } from './pairing.js'

interface Device {
  deviceId: string, name: string, authorities: string[], viaRelay: string[], created: string | null
  expires: string, by: string, lastUsedDay: string | null
  state: 'active' | 'expired' | 'revoked' | 'node_removed' | 'unheard'
}

const WORDS: Record<Device['state'], string> = {
  active: 'active', expired: 'expired', revoked: 'revoked', node_removed: 'its node was removed',
  unheard: 'this node is cut off'
}
const LEVELS: Partial<Record<Device['state'], 'ok' | 'warn'>> = { active: 'ok', unheard: 'warn' }

export function Devices () {
  const { value, error, again } = useLoaded(async (signal) =>
    (await ask<{ devices: Device[] }>('/v1/devices', { signal })).devices, [origin.value, caller.value])
  return (
    <>
      <OwnDevice />
      <h3>Devices of the cluster</h3>
      {error === null
        ? <All list={value} again={again} />
        : isRefused(error)
          ? <p class="hint">Only an operator sees the devices and lets them in.</p>
          : <Trouble error={error} again={again} />}
    </>
  )
}

/** A refusal for want of authority: without a credential, or with a weak one. */
const isRefused = (error: Error): boolean =>
  error instanceof ApiError && (error.status === 401 || error.status === 403)

function All ({ list, again }: { list: Device[] | null, again: () => void }) {
  const [pairs, setPairs] = useState(false)
  const [ends, setEnds] = useState<Device | null>(null)
  return (
    <>
      <div class="inline">
        <Button kind="main" onClick={() => { setPairs(true) }}>Let a device in</Button>
      </div>
      {list?.length === 0 && <Empty title="No device is paired." />}
      <ul class="rows" aria-label="Devices">
        {list?.map((one) => <Row key={one.deviceId} one={one} onRevoke={() => { setEnds(one) }} />)}
      </ul>
      {pairs && (
        <PairingDialog
          onClose={() => {
            setPairs(false)
            again()
          }}
        />
      )}
      {ends !== null && (
        <Confirm
          title={`Revoke ${ends.name}?`} action="Revoke it" danger onClose={() => { setEnds(null) }}
          onConfirm={async () => {
            ended(`${ends.name} is revoked.`, await ask(`/v1/devices/${ends.deviceId}`, { method: 'DELETE' }))
            again()
          }}
        >
          <p>
            Its key never counts again, at any node. What it has open ends within seconds, and so does what it
            has let in.
          </p>
        </Confirm>
      )}
    </>
  )
}

const day = (at: string): string => new Date(at).toLocaleDateString()

function Row ({ one, onRevoke }: { one: Device, onRevoke: () => void }) {
  const { authorities, by, created, deviceId, expires, lastUsedDay, name, state, viaRelay } = one
  const ended = state === 'revoked' || state === 'expired' || state === 'node_removed'
  return (
    <li class="row">
      <div class="grow">
        <p class="row-title">
          {name}
          <Badge level={LEVELS[state] ?? 'plain'}>{WORDS[state]}</Badge>
          {device.value?.deviceId === deviceId && <Badge>this device</Badge>}
          {authorities.map((authority) => <Badge key={authority}>{authority}</Badge>)}
        </p>
        <p class="hint">
          <Copy text={deviceId} shown={deviceId.slice(0, 12)} />
          {!ended && ` · over a relay: ${viaRelay.length === 0 ? 'nothing' : viaRelay.join(', ')}`}
          {created !== null && ` · paired ${day(created)}`} by {by.slice(0, 12)}
          {` · ${state === 'expired' ? 'ended' : 'ends'} ${day(expires)}`}
          {` · ${lastUsedDay === null ? 'never used' : `last used ${lastUsedDay}`}`}
        </p>
      </div>
      {state !== 'revoked' && <Button label={`Revoke ${name}`} onClick={onRevoke}>Revoke</Button>}
    </li>
  )
}
