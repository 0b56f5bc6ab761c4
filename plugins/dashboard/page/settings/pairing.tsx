// The operator's side of pairing: opens it, compares six digits, grants the device's authorities.
import { useRef, useState } from 'preact/hooks'
import { chosenWith, spaced } from '../device/words.js'
import { ask, origin } from '../link.js'
import { useLoaded, useNow } from '../ui/loading.js'
import { Button, Dialog, Trouble, useClose } from '../ui/parts.js'
import { done } from '../ui/toast.js'
import { authorities as known, AuthorityChoice, endAfter, HowLong } from './authorities.js'
import type { Replies } from '../../../../docs/reference/replies.js'

/** Milliseconds between polls for a waiting device. */
const LOOK_MS = 500

type View = Replies['GET /v1/devices/pairing']
type Waiting = NonNullable<View['device']>

export function PairingDialog () {
  const done = useClose()
  const { view, error, reopen } = usePairing()
  const close = (): void => {
    // Pairing must end when the operator leaves. If the request fails, pairing times out.
    if (view?.open === true) void ask('DELETE /v1/devices/pairing').catch(() => {})
    done()
  }
  return (
    <Dialog title="Let a device in" onClose={close}>
      {view === null && (
        <div class="dialog-body">
          {error === null ? <p class="waiting">Opening…</p> : <Trouble error={error} />}
        </div>
      )}
      {view?.open === false && (
        <>
          <div class="dialog-body"><p>The time is over, and no device was let in.</p></div>
          <div class="dialog-foot"><Button kind="main" onClick={reopen}>Open it again</Button></div>
        </>
      )}
      {view?.open === true && <Open view={view} onDone={done} />}
    </Dialog>
  )
}

/** Opens a pairing on this node unless one is open, and polls it while it is shown. */
function usePairing () {
  const begun = useRef(false)
  const { value: view, error, again } = useLoaded(async (signal) => {
    const found = await ask('GET /v1/devices/pairing', { signal })
    const opens = !found.open && !begun.current
    begun.current = true
    return opens ? await ask('POST /v1/devices/pairing', { body: {}, signal }) : found
  }, [], LOOK_MS)
  const reopen = (): void => {
    begun.current = false
    again()
  }
  return { view, error, reopen }
}

function Open ({ view, onDone }: { view: View, onDone: () => void }) {
  const { value: all } = useLoaded(known, [])
  const [choice, setChoice] = useState({ authorities: view.authorities ?? [], viaRelay: view.viaRelay ?? [] })
  const [days, setDays] = useState('90')
  const { device } = view
  const now = useNow(LOOK_MS)
  const seconds = Math.max(0, Math.ceil((Date.parse(view.ends!) - now) / 1000))
  const confirm = async ({ attempt, digits, name }: Waiting): Promise<void> => {
    const body = { attempt, digits, ...choice, expires: endAfter(days) }
    await ask('POST /v1/devices/pairing/confirm', { body })
    done(`${name} is paired.`)
    onDone()
  }
  return (
    <>
      <div class="dialog-body form">
        {device === null ? <HowTo tries={view.triesLeft} /> : <Digits device={device} />}
        <p class="hint" role="timer">Open for {seconds} s more.</p>
        <AuthorityChoice
          legend="What it may do" all={all ?? choice.authorities} chosen={choice.authorities}
          onChange={(authorities) => { setChoice(chosenWith(choice, authorities)) }}
        />
        {choice.authorities.length > 0 && (
          <AuthorityChoice
            legend="What of it over a relay" all={choice.authorities} chosen={choice.viaRelay}
            onChange={(viaRelay) => { setChoice({ ...choice, viaRelay }) }}
          />
        )}
        <HowLong days={days} onDays={setDays} last={['365', 'a year']} />
      </div>
      {device !== null && (
        <div class="dialog-foot">
          <Button
            kind="danger" onClick={async () => {
              await ask('POST /v1/devices/pairing/refuse', { body: { attempt: device.attempt } })
            }}
          >
            They differ: refuse it
          </Button>
          <Button kind="main" onClick={async () => { await confirm(device) }}>
            They are the same: let it in
          </Button>
        </div>
      )}
    </>
  )
}

const HowTo = ({ tries }: { tries: number }) => (
  <p>
    On the device open <code>{origin.value}</code> and choose “Pair this device”, or run{' '}
    <code>svc device pair {origin.value}</code>. {tries === 1 ? 'One device' : `${tries} devices`} may try.
  </p>
)

const Digits = ({ device: { digits, name } }: { device: Waiting }) => (
  <>
    <p><strong>{name}</strong> wants to be paired. It has to show the same six digits, and to say so:</p>
    <p class="digits" role="status" aria-label="Six digits">{spaced(digits)}</p>
  </>
)
