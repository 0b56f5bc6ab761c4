// A plugin's panel in a frame without an origin: gets the state, and may call its plugin's routes with the
// page's authority.
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { ApiError } from './api.js'
import { arrivals, ask, call, home, origin, state } from './link.js'
import { route } from './route.js'
import { Empty, Section } from './ui/parts.js'
import { mayAsk } from './panel-paths.js'
import type { Replies } from '../../../docs/reference/replies.js'

type Panel = Replies['GET /panels']['panels'][number]

export const panels = signal<readonly Panel[]>([])

/** Loads the panels; none while connected to another node, as the page can frame only its own origin. */
export async function loadPanels (): Promise<void> {
  try {
    panels.value = origin.value !== home ? [] : (await ask('GET /panels')).panels
  } catch {
    panels.value = []
  }
}

/** Messages from a panel's frame: a request, or the frame's height. */
type FromPanel = { kind: 'get', id: unknown, path: string } | { kind: 'height', px: number }

const MOST_PX = 20_000

export function PanelPage () {
  const [plugin, name] = route.value.parts
  const panel = panels.value.find((one) => one.plugin === plugin && one.name === name)
  const ref = useRef<HTMLIFrameElement>(null)
  const tell = (message: object): void => { ref.current?.contentWindow?.postMessage(message, '*') }
  useEffect(() => {
    const listen = ({ source, data }: MessageEvent): void => {
      if (source === null || source !== ref.current?.contentWindow || panel === undefined) return
      const message = data as FromPanel
      if (message.kind === 'height') setHeight(ref.current, message.px)
      if (message.kind === 'get') {
        const { id, path } = message
        void answer(panel, String(path)).then((got) => { tell({ kind: 'got', id, ...got }) })
      }
    }
    addEventListener('message', listen)
    return () => { removeEventListener('message', listen) }
  }, [panel])
  const shown = arrivals.value
  useEffect(() => { tell({ kind: 'state', state: state.value }) }, [shown])
  if (panel === undefined) return <Empty title="No plugin of this node brings this panel." />
  return (
    <Section title={panel.title}>
      <iframe
        ref={ref} class="panel" title={panel.title} sandbox="allow-scripts"
        src={`${origin.value}/panels/${encodeURIComponent(panel.plugin)}/${encodeURIComponent(panel.name)}`}
        onLoad={() => { tell({ kind: 'state', state: state.value }) }}
      />
    </Section>
  )
}

function setHeight (frame: HTMLIFrameElement, px: unknown): void {
  if (typeof px === 'number' && px > 0 && px <= MOST_PX) frame.style.height = `${Math.ceil(px)}px`
}

async function answer (panel: Panel, path: string): Promise<{ status: number, body: unknown }> {
  if (!mayAsk(panel.routes, path)) {
    return { status: 403, body: { error: { message: `${panel.plugin} declares no route GET ${path}` } } }
  }
  try {
    return { status: 200, body: await (await call(path)).json() as unknown }
  } catch (error) {
    const status = error instanceof ApiError ? error.status : 0
    return { status, body: { error: { message: (error as Error).message } } }
  }
}
