import { Suspense } from 'preact/compat'
import { useEffect } from 'preact/hooks'
import { ended, signs } from './device/own.js'
import { PairDialog } from './device/pair.js'
import { arrivals, home, notice, origin, past, state, status, typed } from './link.js'
import { linkTo, route } from './route.js'
import { nodes as all } from './known.js'
import { AccessForm, TokenDialog } from './ui/token.js'
import { Badge, Button, Empty, Guard, Opens, Quoting } from './ui/parts.js'
import { count } from './ui/text.js'
import { dismiss, toasts } from './ui/toast.js'
import { loadAll, pages } from './pages.js'

export function App () {
  const { page } = route.value
  const current = pages[page] ?? { title: 'Nothing here', component: NoPage }
  const Shown = current.component
  const known = arrivals.value > 0
  useEffect(() => { if (known) void loadAll() }, [known])
  return (
    <>
      <a class="skip" href="#content" onClick={skipToContent}>To the content</a>
      <Header page={page} />
      <Banners />
      <main id="content" tabIndex={-1}>
        <h1 class="visually-hidden">{current.title}</h1>
        {status.value === 'refused' && !known
          ? <AccessForm />
          : known
            ? (
                <Guard key={page}>
                  <Suspense fallback={<p class="waiting">Loading…</p>}><Shown /></Suspense>
                </Guard>
              )
            : <p class="waiting" role="status">Asking {origin.value}…</p>}
      </main>
      <Toasts />
    </>
  )
}

function NoPage () {
  return <Empty title="There is no such page."><a href={linkTo('cluster')}>The cluster</a></Empty>
}

function skipToContent (event: Event): void {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

function Header ({ page }: { page: string }) {
  return (
    <header class="header">
      <a class="brand" href={linkTo('cluster')}>svc</a>
      <nav aria-label="Pages">
        {Object.entries(pages).map(([name, { title }]) => (
          <a key={name} href={linkTo(name)} aria-current={name === page ? 'page' : undefined}>{title}</a>
        ))}
      </nav>
      <Pulse />
      <Opens kind="quiet" dialog={<TokenDialog />}>
        {typed.value !== null ? 'Token in use' : signs() ? 'Paired device' : 'Sign in'}
      </Opens>
    </header>
  )
}

function Pulse () {
  if (arrivals.value === 0) return <span class="pulse" />
  const nodes = all.value
  const worst = nodes.some(({ health }) => health.level === 'error')
    ? 'error'
    : nodes.some(({ health }) => health.level === 'warn') ? 'warn' : 'ok'
  const live = status.value === 'live'
  const { knownNodes, liveNodes, stale, quorum } = state.value.cluster
  const level = !live || stale || quorum === 'lost' ? 'error' : worst
  const words = !live
    ? 'not connected'
    : quorum === 'lost'
      ? 'no quorum'
      : stale
        ? 'no master'
        : liveNodes < knownNodes ? `${liveNodes} of ${knownNodes} nodes` : count(liveNodes, 'node')
  const local = nodes.find((node) => node.local)
  return (
    <span class="pulse" role="status">
      <Badge level={level}>{words}</Badge>
      <span class="at">at {local?.name ?? new URL(origin.value).host}</span>
    </span>
  )
}

function Banners () {
  const away = origin.value !== home
  const refused = status.value === 'refused' && arrivals.value > 0
  return (
    <div class="banners" aria-live="polite">
      {past.value !== null && (
        <div class="banner past">
          <span>This is how it was at {past.value.at}.</span>
          <Button kind="quiet" onClick={() => { past.value = null }}>Back to now</Button>
        </div>
      )}
      {(status.value === 'lost' || status.value === 'connecting') && arrivals.value > 0 && (
        <div class="banner warn">
          <span>{origin.value} does not answer; what is shown may be old. Trying again.</span>
        </div>
      )}
      {notice.value !== null && (
        <div class="banner">
          <span><Quoting text={notice.value} /></span>
          {away && <a href={origin.value}>Open that node's own page</a>}
          <Button kind="quiet" label="Dismiss" onClick={() => { notice.value = null }}>✕</Button>
        </div>
      )}
      {(refused || ended.value !== null) && (
        <div class="banner warn">
          <span>
            {ended.value === null
              ? `${origin.value} wants a token of its own.`
              : `${ended.value} It may be paired anew.`}
          </span>
          {arrivals.value > 0 && <Opens dialog={<PairDialog />}>Pair this device</Opens>}
          {refused && <Opens dialog={<TokenDialog />}>Enter a token</Opens>}
        </div>
      )}
    </div>
  )
}

function Toasts () {
  return (
    <div class="toasts" aria-live="assertive">
      {toasts.value.map(({ id, kind, text, remedy }) => (
        <div key={id} class={`toast ${kind}`}>
          <div><p>{text}</p>{remedy !== null && <p class="remedy">{remedy}</p>}</div>
          <Button kind="quiet" label="Dismiss" onClick={() => { dismiss(id) }}>✕</Button>
        </div>
      ))}
    </div>
  )
}
