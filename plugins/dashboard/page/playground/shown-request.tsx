import { useId, useState } from 'preact/hooks'
import { call, origin, state, token } from '../link.js'
import { linkTo } from '../route.js'
import { Button, Dialog, Snippet } from '../ui/parts.js'
import { done } from '../ui/toast.js'
import type { Lines, Shown } from './request.js'

interface RequestProps {
  /** Made when it is wanted. */
  body: () => Record<string, unknown>
  path: string
  lines: (shown: Shown) => Lines[]
}

export function RequestButton ({ body, path, lines }: RequestProps) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button kind="quiet" onClick={() => { setOpen(true) }}>As code</Button>
      {open && <RequestDialog body={body} path={path} lines={lines} onClose={() => { setOpen(false) }} />}
    </>
  )
}

function RequestDialog ({ body, path, lines, onClose }: RequestProps & { onClose: () => void }) {
  const id = useId()
  const all = lines({ origin: origin.value, path, body: body(), withToken: token.value !== null })
  const [name, setName] = useState(all[0]!.name)
  const chosen = all.find((one) => one.name === name) ?? all[0]!
  return (
    <Dialog title="This request as code" onClose={onClose}>
      <div class="dialog-body">
        <label class="visually-hidden" for={id}>Program</label>
        <select
          id={id} class="field short" value={chosen.name}
          onChange={({ currentTarget }) => { setName(currentTarget.value) }}
        >
          {all.map((one) => <option key={one.name}>{one.name}</option>)}
        </select>
        <Snippet label={`The request for ${chosen.name}`} code={chosen.code} />
        {token.value !== null && <p class="hint">The token is read from SVC_TOKEN; it is not shown here.</p>}
      </div>
    </Dialog>
  )
}

interface TraceProps {
  commandId: string | null, traced: boolean
  /** Whether to offer tracing here; once on a page is enough. */
  offer?: boolean
}

/** A link to the trace of a request; without tracing, a button that enables it. */
export function TraceLink ({ commandId, traced, offer = true }: TraceProps) {
  if (traced && commandId !== null) {
    return <a class="button quiet" href={linkTo('happened', 'traces', commandId)}>Trace</a>
  }
  if (state.value.tracingEnabled || !offer) return null
  return (
    <Button
      kind="quiet" title="New requests are traced from then on, in the whole cluster"
      onClick={async () => {
        await call('/v1/tracing', { method: 'PUT', body: { enabled: true } })
        done('New requests are traced from now on.')
      }}
    >
      Switch tracing on
    </Button>
  )
}
