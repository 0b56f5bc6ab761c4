import { ask, origin, state, token } from '../link.js'
import { linkTo } from '../route.js'
import { Button, CodeChoice, Dialog, Opens } from '../ui/parts.js'
import { done } from '../ui/toast.js'
import type { Lines } from '../ui/text.js'
import type { Shown } from './request.js'

interface RequestProps {
  body: () => Record<string, unknown>
  path: string
  lines: (shown: Shown) => Lines[]
}

export function RequestButton ({ body, path, lines }: RequestProps) {
  const withToken = token.value !== null
  const shown = () => ({ origin: origin.value, path, body: body(), withToken })
  return (
    <Opens
      kind="quiet" dialog={(close) => (
        <Dialog title="This request as code" onClose={close}>
          <div class="dialog-body">
            <CodeChoice label="Program" lines={lines(shown())} />
            {withToken && <p class="hint">The token is read from SVC_TOKEN; it is not shown here.</p>}
          </div>
        </Dialog>
      )}
    >
      As code
    </Opens>
  )
}

interface TraceProps {
  commandId: string | null, traced: boolean
  /** Whether to offer a button that enables tracing; only a conversation's last answer has one. */
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
        await ask('PUT /v1/tracing', { body: { enabled: true } })
        done('New requests are traced from now on.')
      }}
    >
      Switch tracing on
    </Button>
  )
}
