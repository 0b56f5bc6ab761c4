import { origin, token } from '../link.js'
import { linkTo } from '../route.js'
import { CodeChoice, Dialog, Opens } from '../ui/parts.js'
import type { Lines } from '../ui/text.js'
import type { Shown } from './request.js'

interface RequestProps {
  body: () => Record<string, unknown>
  path: string
  lines: (shown: Shown) => Lines[]
}

export const RequestButton = (props: RequestProps) =>
  <Opens kind="quiet" dialog={<RequestDialog {...props} />}>As code</Opens>

function RequestDialog ({ body, path, lines }: RequestProps) {
  const withToken = token.value !== null
  return (
    <Dialog title="This request as code">
      <div class="dialog-body">
        <CodeChoice label="Program" lines={lines({ origin: origin.value, path, body: body(), withToken })} />
        {withToken && <p class="hint">The token is read from SVC_TOKEN; it is not shown here.</p>}
      </div>
    </Dialog>
  )
}

/** A link to the trace of a request, if it was traced. */
export const TraceLink = ({ commandId, traced }: { commandId: string | null, traced: boolean }) =>
  traced && commandId !== null
    ? <a class="button quiet" href={linkTo('happened', 'traces', commandId)}>Trace</a>
    : null
