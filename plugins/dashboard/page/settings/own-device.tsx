import { useState } from 'preact/hooks'
import { device, ended, forget } from '../device/own.js'
import { PairDialog } from '../device/pair.js'
import { connect, origin, typed } from '../link.js'
import { Badge, Button, Confirm } from '../ui/parts.js'
import { done } from '../ui/toast.js'

export function OwnDevice () {
  const [pairs, setPairs] = useState(false)
  const [leaves, setLeaves] = useState(false)
  const kept = device.value
  return (
    <>
      <h3>This device</h3>
      {kept === null
        ? (
            <div class="row">
              <p class="grow hint">
                Paired, it needs no token: it has a key that never leaves this browser, and any node of the
                cluster knows it.
              </p>
              <Button onClick={() => { setPairs(true) }}>Pair this device</Button>
            </div>
          )
        : (
            <div class="row">
              <div class="grow">
                <p class="row-title">
                  {kept.grant.name}
                  {ended.value === null
                    ? kept.grant.authorities.map((one) => <Badge key={one}>{one}</Badge>)
                    : <Badge level="error">ended</Badge>}
                </p>
                <p class="hint">
                  {ended.value ?? `Until ${new Date(kept.grant.expires).toLocaleString()}.`}
                  {typed.value !== null && ' The token that you typed counts here in its place.'}
                </p>
              </div>
              {ended.value !== null && <Button onClick={() => { setPairs(true) }}>Pair it anew</Button>}
              <Button onClick={() => { setLeaves(true) }}>Forget this device</Button>
            </div>
          )}
      {pairs && <PairDialog onClose={() => { setPairs(false) }} />}
      {leaves && (
        <Confirm
          title="Forget this device?" action="Forget it" danger onClose={() => { setLeaves(false) }}
          onConfirm={async () => {
            await forget(origin.value)
            done('This device is revoked, and its key is gone.')
            connect()
          }}
        >
          <p>It is revoked for good at every node, and this browser drops its key. It may be paired anew.</p>
        </Confirm>
      )}
    </>
  )
}
